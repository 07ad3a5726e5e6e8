"""Functions of the standard library that call other code: wrappers, contexts and clocks. Also syncheck's own API."""

import ast
from collections.abc import Callable

from syncheck.errors import ConfigError
from syncheck.filters.ignore_block import ALLOWED_SYNCS
from syncheck.lint.interp.contexts import restoring
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.registry import models
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Call,
    Constant,
    Context,
    Device,
    Function,
    Mapping,
    Native,
    NativeObject,
    Partial,
    Symbol,
    Value,
)
from syncheck.rules import catalogue

# -- clocks


@models(
    "time.time",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "time.perf_counter",
    "time.monotonic",
    "time.time_ns",
    "time.perf_counter_ns",
    "time.monotonic_ns",
    "timeit.default_timer",
)
def _clock(evaluator: Evaluator, call: Call) -> Value:
    return evaluator.machine.read_clock(call.node)


@models("timeit.timeit", "timeit.repeat")
def _timeit(evaluator: Evaluator, call: Call) -> Value:
    return _measured(evaluator, call, call.get("stmt", 0))


@models("timeit.Timer")
def _timer(evaluator: Evaluator, call: Call) -> Value:
    statement = call.get("stmt", 0)

    def measure(inner: Call) -> Value:
        return _measured(evaluator, inner, statement)

    return NativeObject(dict.fromkeys(("timeit", "repeat", "autorange"), measure))


def _measured(evaluator: Evaluator, call: Call, statement: Value | None) -> Value:
    """Run a statement between two readings of a clock, as `timeit` does; a statement given as text does nothing."""
    machine = evaluator.machine
    is_asked = not (isinstance(machine.current_node, ast.Expr) and machine.current_node.value is call.node)
    before = machine.read_clock(call.node) if is_asked else None
    if statement is not None and not isinstance(statement, Constant):
        evaluator.call(statement, Call(call.node, []))
    if before is not None:  # otherwise it is a warm-up run
        machine.subtract_clock(machine.read_clock(call.node), before)
    return UNKNOWN


# -- functions that return functions


@models("functools.partial")
def _partial(evaluator: Evaluator, call: Call) -> Value | None:
    del evaluator
    return Partial(call.args[0], list(call.args[1:]), call.kwargs) if call.args else None


@models("functools.wraps")
def _wraps(evaluator: Evaluator, call: Call) -> Value:
    del evaluator, call
    return Native(lambda inner: inner.args[0] if inner.args else None)


@models("functools.lru_cache", "functools.cache")
def _cache(evaluator: Evaluator, call: Call) -> Value:
    """Return a caching wrapper for a function, or a decorator if called with a size first."""
    if not call.args or not isinstance(call.args[0], Function):
        return Symbol("functools.cache")
    function, kept = call.args[0], Mapping({})

    def cached(inner: Call) -> Value | None:
        given = inner.values()
        if not all(isinstance(value, Constant | Device) for value in given):
            return None
        key = tuple(
            repr(value.value if isinstance(value, Constant) else value.index)
            for value in given
            if isinstance(value, Constant | Device)
        )
        if key not in kept.items:
            kept.items[key] = evaluator.call(function, inner)
        return kept.items[key]

    return Native(cached)


# -- contexts


@models("contextlib.nullcontext")
def _null_context(evaluator: Evaluator, call: Call) -> Value:
    del evaluator
    return Context(lambda: call.get("enter_result", 0) or NONE, lambda: None, is_portable=True)


@models("contextlib.closing")
def _closing(evaluator: Evaluator, call: Call) -> Value:
    owner, node = call.args[0] if call.args else UNKNOWN, call.node
    return Context(lambda: owner, lambda: evaluator.call(evaluator.attribute(owner, "close", node), Call(node, [])))


@models("syncheck.ignore")
def _ignore(evaluator: Evaluator, call: Call) -> Value:
    """Return a context that ignores some rules."""
    names = [value.value for value in call.args if isinstance(value, Constant) and isinstance(value.value, str)]
    try:
        codes = catalogue.codes_of(names)
    except ConfigError:  # raised again when the program runs
        return UNKNOWN
    return _ignoring(evaluator, codes)


@models("syncheck.allow_sync")
def _allow_sync(evaluator: Evaluator, call: Call) -> Value:
    """Return a context in which the host is allowed to wait."""
    del call
    return _ignoring(evaluator, frozenset(ALLOWED_SYNCS))


def _ignoring(evaluator: Evaluator, codes: frozenset[str]) -> Value:
    sites = evaluator.machine.sites

    def enter() -> Value:
        sites.ignored_now |= codes
        return NONE

    def restore(before: frozenset[str]) -> None:
        sites.ignored_now = before

    return restoring(lambda: sites.ignored_now, enter, restore)


class _ExitStack:
    """An exit stack, which leaves its contexts at its end."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._entered: list[Context] = []

    def enter_context(self, call: Call) -> Value:
        """Enter a context and push it on the stack."""
        node = call.node.args[0] if isinstance(call.node, ast.Call) and call.node.args else ast.Constant(value=0)
        given = call.get("cm", 0)
        if given is None:
            return UNKNOWN
        context = self._evaluator.context(given, node)
        value = context.enter()
        self._entered.append(context)
        return value

    def callback(self, call: Call) -> Value:
        """Push a function on the stack."""
        if not call.args:
            return UNKNOWN
        function, given = call.args[0], Call(call.node, call.args[1:], call.kwargs, call.is_complete)
        self._entered.append(Context(lambda: NONE, lambda: self._evaluator.call(function, given)))
        return function

    def other(self, call: Call) -> Value | None:
        """Push something unknown on the stack."""
        del call
        self._entered.append(Context(lambda: NONE, self._evaluator.machine.assume_synchronized))
        return None

    def leave(self) -> None:
        """Leave all contexts on the stack."""
        while self._entered:
            self._entered.pop().leave()

    def close(self, call: Call) -> Value:
        """See `leave`."""
        del call
        self.leave()
        return NONE


@models("contextlib.ExitStack", "contextlib.AsyncExitStack")
def _exit_stack(evaluator: Evaluator, call: Call) -> Value:
    del call
    stack = _ExitStack(evaluator)
    methods: dict[str, Callable[[Call], Value | None]] = dict.fromkeys(_OTHER_METHODS, stack.other)
    methods |= {"enter_context": stack.enter_context, "callback": stack.callback, "close": stack.close}
    value = NativeObject(methods)
    return Context(lambda: value, stack.leave)


_OTHER_METHODS = ("push", "pop_all", "push_async_exit", "push_async_callback", "enter_async_context")
"""Methods of an exit stack that are not modeled."""
