"""Threads and executors. Each runs its function from beginning to end where it is started."""

import ast
from dataclasses import dataclass

from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.registry import models, models_methods
from syncheck.lint.interp.values import (
    UNKNOWN,
    Call,
    Constant,
    Event,
    Function,
    Mapping,
    NativeObject,
    Partial,
    Sequence,
    Value,
    Work,
)
from syncheck.lint.nodes import walk

_WAITING = frozenset({"get", "acquire", "wait", "recv", "join"})
"""Methods by which a thread waits for another thread."""


@dataclass(eq=False, slots=True)
class Future(Value):
    """The future result of a thread or an executor."""

    value: Value


@dataclass(eq=False, slots=True)
class Thread(Value):
    """A thread that has been created but not started.

    Attributes:
        waits_inside: it may wait for what others do after its start, so that the time of its operations is unknown.
    """

    target: Value
    args: list[Value]
    kwargs: dict[str, Value]
    waits_inside: bool = False


@models("threading.Thread")
def _thread(evaluator: Evaluator, call: Call) -> Value:
    del evaluator
    args, kwargs = call.kwargs.get("args"), call.kwargs.get("kwargs")
    given = {str(key): value for key, value in kwargs.items.items()} if isinstance(kwargs, Mapping) else {}
    target = call.get("target", 1) or UNKNOWN
    function = target.function if isinstance(target, Partial) else target
    waits = isinstance(function, Function) and _waits_for_others(function)
    return Thread(target, args.items if isinstance(args, Sequence) else [], given, waits)


def _waits_for_others(function: Function) -> bool:
    """Return whether a function waits for other threads. Waiting for a CUDA event does not count."""
    for node in walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WAITING:
            owner = node.func.value
            value = function.scope.find(owner.id) if isinstance(owner, ast.Name) else None
            if not isinstance(value, Event | Work | Constant):
                return True
    return False


@models_methods(Thread)
def _thread_methods(evaluator: Evaluator, owner: Thread, name: str, call: Call) -> Value | None:
    if owner.waits_inside:
        return evaluator.call_unknown("", Call(call.node, [*owner.args, *owner.kwargs.values()]))
    if name == "start":
        evaluator.call_in_new_thread(owner.target, Call(call.node, list(owner.args), dict(owner.kwargs)))
    return UNKNOWN


@models("concurrent.futures.ThreadPoolExecutor")
def _executor(evaluator: Evaluator, call: Call) -> Value:
    del call

    def submit(inner: Call) -> Value:
        if not inner.args:
            return UNKNOWN
        return Future(evaluator.call_in_new_thread(inner.args[0], Call(inner.node, inner.args[1:], inner.kwargs)))

    def run_all(inner: Call) -> Value:
        if len(inner.args) != 2:
            return UNKNOWN
        items = list(evaluator.iterations(inner.args[1]))
        return Sequence([evaluator.call_in_new_thread(inner.args[0], Call(inner.node, [item])) for item in items])

    return NativeObject({"submit": submit, "map": run_all})


@models_methods(Future)
def _future(evaluator: Evaluator, owner: Future, name: str, call: Call) -> Value | None:
    del evaluator, call
    return owner.value if name in {"result", "wait", "get"} else UNKNOWN
