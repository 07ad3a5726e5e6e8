"""Context managers: what `with` makes current."""

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from syncheck.hb.ids import StreamId
from syncheck.lint.interp.machine import N_DEVICES
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    UNKNOWN_STREAM,
    Call,
    Context,
    Function,
    Generator,
    Instance,
    Stream,
    Value,
)

if TYPE_CHECKING:
    from syncheck.lint.interp.calls import Calls

T = TypeVar("T")
_ORDERS_NOTHING = re.compile(
    r"autocast|no_grad|enable_grad|inference_mode|profile|record_function|nvtx|emit|open\(|lock|suppress|raises|warns|patch"
    r"|tqdm|set_default|sdp|fakemode|fork_rng|temporar|catch_warnings|subtest|range|rank_zero|executor|torch\."
)
"""Contexts that are entered and left without waiting for anything."""


def restoring(save: Callable[[], T], enter: Callable[[], Value], restore: Callable[[T], None]) -> Context:
    """Return a context that puts back at its end what it changed; one that was entered elsewhere puts nothing back.

    Args:
        save: returns what is to be put back.
        enter: makes the change.
        restore: puts it back.
    """
    saved: list[T] = []

    def begin() -> Value:
        saved.append(save())
        return enter()

    def end() -> None:
        if saved:
            restore(saved.pop())

    return Context(begin, end)


class Contexts:
    """Makes values context managers."""

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls

    def of(self, value: Value, node: ast.expr) -> Context:
        """Return what a value does as a context manager."""
        calls = self._calls
        match value:
            case Context():
                return value
            case Stream():
                return calls.api.stream_context(value, node)
            case Generator(values=values):
                return Context(lambda: next(values, UNKNOWN), lambda: next(values, UNKNOWN))
            case Instance():
                enter, leave = value.kind.find("__enter__"), value.kind.find("__exit__")
                if isinstance(enter, Function) and isinstance(leave, Function):
                    return Context(
                        lambda: calls.call_function(enter, Call(node, [value])),
                        lambda: calls.call_function(leave, Call(node, [value, NONE, NONE, NONE])),
                    )
            case _:
                pass
        return self._unknown(value, node)

    def _unknown(self, value: Value, node: ast.expr) -> Context:
        """Return a context that may make any stream current, if its name speaks of streams or devices."""
        text = ast.unparse(node).lower()
        if "coalescing" in text:
            collectives = self._calls.collectives
            return Context(collectives.begin_coalescing, collectives.end_coalescing)
        if not any(word in text for word in ("stream", "device", "ctx", "context")):
            return Context(
                lambda: value,
                lambda: None if _ORDERS_NOTHING.search(text) else self._calls.machine.assume_synchronized(),
            )
        thread = self._calls.machine.thread

        def enter() -> Value:
            thread.streams = dict.fromkeys(range(N_DEVICES), UNKNOWN_STREAM)
            return UNKNOWN

        def restore(streams: dict[int, StreamId]) -> None:
            thread.streams = streams

        return restoring(lambda: dict(thread.streams), enter, restore)
