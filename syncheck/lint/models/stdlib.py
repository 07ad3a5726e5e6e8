"""Functions of the standard library that call others: threads, executors, wrappers, contexts."""

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from syncheck.errors import ConfigError
from syncheck.lint.interp.contexts import restoring
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Call,
    Constant,
    Context,
    Device,
    Event,
    Function,
    Future,
    Mapping,
    Partial,
    Sequence,
    Symbol,
    Thread,
    Value,
    Work,
)
from syncheck.rules import catalogue

if TYPE_CHECKING:
    from syncheck.lint.interp.calls import Calls


_OTHER_METHODS = ("push", "pop_all", "push_async_exit", "push_async_callback", "enter_async_context")
"""Methods of an exit stack that are not followed."""
_WAITING = frozenset({"get", "acquire", "wait", "recv", "join"})
"""Methods that a thread waits with for another thread."""


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
            "contextlib.AsyncExitStack": self._exit_stack,
            "contextlib.closing": self._closing,
            "syncheck.ignore": self._ignore,
            "functools.lru_cache": self._cache,
            "functools.cache": self._cache,
            "syncheck.cached": self._cached,
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
        return Sequence([self._calls.in_new_thread(call.args[0], Call(call.node, [item])) for item in items])

    # -- caches

    def _cache(self, call: Call) -> Value:
        """Return what makes a function keep its results; called with it, or first with a size."""
        if call.args and isinstance(call.args[0], Function):
            return Partial(Symbol("syncheck.cached"), [call.args[0], Mapping({})])
        return Symbol("functools.cache")

    def _cached(self, call: Call) -> Value:
        function, kept, *others = call.args
        given = [*others, *call.kwargs.values()]
        if not isinstance(kept, Mapping) or not all(isinstance(value, Constant | Device) for value in given):
            return self._calls.call_unknown("", Call(call.node, others, call.kwargs))
        key = tuple(repr(value.value if isinstance(value, Constant) else value.index) for value in given
                    if isinstance(value, Constant | Device))  # fmt: skip
        if key not in kept.items:
            kept.items[key] = self._calls.call(function, Call(call.node, others, call.kwargs, call.is_complete))
        return kept.items[key]

    # -- contexts

    def _closing(self, call: Call) -> Value:
        owner = call.args[0] if call.args else UNKNOWN
        return Context(lambda: owner, lambda: self._calls.close(owner, call.node))

    def _ignore(self, call: Call) -> Value:
        """Return a context in which some rules are ignored."""
        places = self._machine.places
        names = [value.value for value in call.args if isinstance(value, Constant) and isinstance(value.value, str)]
        try:
            codes = frozenset(rule.code for name in names for rule in catalogue.matching(name))
        except ConfigError:  # which is raised when it runs
            return UNKNOWN

        def enter() -> Value:
            places.ignored_now |= codes
            return NONE

        def restore(before: frozenset[str]) -> None:
            places.ignored_now = before

        return restoring(lambda: places.ignored_now, enter, restore)

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

    def _callbacks(self, entered: list[Context]) -> "dict[str, Callable[[Call], Value]]":
        """Return the methods of an exit stack that put something on it which is no context."""

        def callback(inner: Call) -> Value:
            if not inner.args:
                return UNKNOWN
            function, given = inner.args[0], Call(inner.node, inner.args[1:], inner.kwargs, inner.is_complete)
            entered.append(Context(lambda: NONE, lambda: self._calls.call(function, given)))
            return function

        def other(inner: Call) -> Value:
            entered.append(Context(lambda: NONE, self._machine.assume_synchronized))
            return self._calls.call_unknown("", inner)

        methods: dict[str, Callable[[Call], Value]] = {"callback": callback}
        methods |= dict.fromkeys(_OTHER_METHODS, other)
        return methods

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

        key = f"syncheck.stack{self._machine.next_ident()}"
        self.functions |= {f"{key}.{name}": function for name, function in self._callbacks(entered).items()}
        self.functions[f"{key}.enter_context"] = enter_context
        self.functions[f"{key}.close"] = close
        return Context(lambda: Symbol(key), leave)


def _thread(call: Call) -> Value:
    args = call.kwargs.get("args")
    kwargs = call.kwargs.get("kwargs")
    given = {str(key): value for key, value in kwargs.items.items()} if isinstance(kwargs, Mapping) else {}
    target = call.get("target", 1) or UNKNOWN
    function = target.function if isinstance(target, Partial) else target
    waits = isinstance(function, Function) and _waits_for_others(function)
    return Thread(target, args.items if isinstance(args, Sequence) else [], given, waits)


def _waits_for_others(function: Function) -> bool:
    """Tell whether a function waits for other threads; waiting for an event of CUDA is no such wait."""
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WAITING:
            owner = node.func.value
            value = function.scope.find(owner.id) if isinstance(owner, ast.Name) else None
            if not isinstance(value, Event | Work | Constant):
                return True
    return False


def _executor(call: Call) -> Value:
    del call
    return Symbol("syncheck.executor")


def _partial(call: Call) -> Value | None:
    return Partial(call.args[0], list(call.args[1:]), call.kwargs) if call.args else None


def _wraps(call: Call) -> Value:
    del call
    return Symbol("syncheck.identity")
