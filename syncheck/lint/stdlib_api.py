"""Functions of the standard library that call others: threads, executors, wrappers, contexts."""

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from syncheck.lint.values import (
    NONE,
    UNKNOWN,
    Bound,
    Call,
    Constant,
    Context,
    Future,
    Items,
    Name,
    Table,
    Thread,
    Value,
)

if TYPE_CHECKING:
    from syncheck.lint.calls import Calls


class StandardLibrary:
    """Calls functions of the standard library, and "syncheck..." ones that stand for what they return.

    Attributes:
        functions: by their full names.
    """

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self._machine = calls.machine
        self.functions: dict[str, Callable[[Call], Value | None]] = {
            "timeit.timeit": self._timeit,
            "threading.Thread": _thread,
            "concurrent.futures.ThreadPoolExecutor": _executor,
            "syncheck.executor.submit": self._submit,
            "syncheck.executor.map": self._executor_map,
            "syncheck.contextmanager": self._generator_context,
            "syncheck.within": self._within,
            "functools.partial": _partial,
            "functools.wraps": _wraps,
            "syncheck.identity": lambda call: call.args[0] if call.args else None,
            "contextlib.nullcontext": lambda call: Context(lambda: call.get("enter_result", 0) or NONE, lambda: None),
            "contextlib.ExitStack": self._exit_stack,
        }

    def _timeit(self, call: Call) -> Value:
        before = self._machine.read_clock(call.node)
        if call.args and not isinstance(call.args[0], Constant):
            self._calls.call(call.args[0], Call(call.node, []))
        return self._calls.difference(self._machine.read_clock(call.node), before)

    # -- executors

    def _submit(self, call: Call) -> Value:
        if not call.args:
            return UNKNOWN
        return Future(self._calls.in_new_thread(call.args[0], Call(call.node, call.args[1:], call.kwargs)))

    def _executor_map(self, call: Call) -> Value:
        if len(call.args) != 2:
            return UNKNOWN
        items = list(self._calls.iteration.turns(call.args[1]))
        return Items([self._calls.in_new_thread(call.args[0], Call(call.node, [item])) for item in items])

    # -- contexts

    def _generator_context(self, call: Call) -> Value:
        return self._calls.call(call.args[0], Call(call.node, call.args[1:], call.kwargs, call.is_complete))

    def _within(self, call: Call) -> Value:
        context, function = call.args[:2]
        assert isinstance(context, Context)  # noqa: S101  `Calls.decorate` gave it
        context.enter()
        try:
            return self._calls.call(function, Call(call.node, call.args[2:], call.kwargs, call.is_complete))
        finally:
            context.leave()

    def _exit_stack(self, call: Call) -> Value:
        del call
        entered: list[Context] = []

        def enter_context(inner: Call) -> Value:
            node = inner.node.args[0] if isinstance(inner.node, ast.Call) and inner.node.args else ast.Constant(value=0)
            given = inner.get("cm", 0)
            if given is None:
                return UNKNOWN
            context = self._calls.contexts.of(given, node)
            value = context.enter()
            entered.append(context)
            return value

        def leave() -> None:
            while entered:
                entered.pop().leave()

        def close(inner: Call) -> Value:
            del inner
            leave()
            return NONE

        key = f"syncheck.stack{self._machine.ident()}"
        self.functions[f"{key}.enter_context"] = enter_context
        self.functions[f"{key}.close"] = close
        return Context(lambda: Name(key), leave)


def _thread(call: Call) -> Value:
    args = call.kwargs.get("args")
    kwargs = call.kwargs.get("kwargs")
    given = {str(key): value for key, value in kwargs.items.items()} if isinstance(kwargs, Table) else {}
    return Thread(call.get("target", 1) or UNKNOWN, args.items if isinstance(args, Items) else [], given)


def _executor(call: Call) -> Value:
    del call
    return Name("syncheck.executor")


def _partial(call: Call) -> Value | None:
    return Bound(call.args[0], list(call.args[1:]), call.kwargs) if call.args else None


def _wraps(call: Call) -> Value:
    del call
    return Name("syncheck.identity")
