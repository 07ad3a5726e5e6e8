"""Context managers, and the streams and devices that they make current."""

import ast
import re
from collections.abc import Callable
from typing import TypeVar

from syncheck.hb.ids import StreamId
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.machine import N_DEVICES, Machine
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    UNKNOWN_STREAM,
    Call,
    Context,
    Event,
    Function,
    Generator,
    Instance,
    Stream,
    Value,
)

T = TypeVar("T")
_ORDERS_NOTHING = re.compile(
    r"autocast|no_grad|enable_grad|inference_mode|profile|record_function|nvtx|emit|open\(|lock|suppress|raises|warns|patch"
    r"|tqdm|no_?sync|affinity|set_default|sdp|fakemode|forward_context|fork_rng|temporar|catch_warnings|subtest|range|rank_zero|executor|torch\."
)
"""Contexts that wait for nothing when they are entered and left."""
_MAYBE_STREAMS = ("stream", "device", "ctx", "context")
"""Text of contexts that may make a stream current."""
_FORWARD_CONTEXT = re.compile(r"^\w*forward_context\(")
"""Contexts that keep what a model needs in a variable. Source: vllm/forward_context.py, `set_forward_context`."""


def restoring(save: Callable[[], T], enter: Callable[[], Value], restore: Callable[[T], None]) -> Context:
    """Return a context that restores at its end what it changed. One that was entered elsewhere restores nothing.

    Args:
        save: returns the state to restore.
        enter: makes the change.
        restore: restores the state.
    """
    saved: list[T] = []

    def begin() -> Value:
        saved.append(save())
        return enter()

    def end() -> None:
        if saved:
            restore(saved.pop())

    return Context(begin, end, is_portable=True)


def setting(owner: object, attribute: str, value: object) -> Context:
    """Return a context in which an attribute of an object has another value."""

    def enter() -> Value:
        setattr(owner, attribute, value)
        return NONE

    return restoring(lambda: getattr(owner, attribute), enter, lambda saved: setattr(owner, attribute, saved))


def unknown_streams() -> dict[int, StreamId]:
    """Return the current stream of each device where no stream is known."""
    return dict.fromkeys(range(N_DEVICES), UNKNOWN_STREAM)


def stream_context(machine: Machine, stream: Stream, node: ast.AST) -> Context:
    """Return the context in which a stream and its device are current."""

    def save() -> tuple[dict[int, StreamId], int]:
        return dict(machine.thread.streams), machine.thread.device

    def enter() -> Value:
        thread = machine.thread
        thread.set_explicitly = True
        if not stream.ident:
            thread.streams = unknown_streams()
            return stream
        thread.contexts.append((stream.ident, machine.site(node)))
        thread.streams = thread.streams | {stream.device: stream.ident}
        thread.device = stream.device
        return stream

    def restore(saved: tuple[dict[int, StreamId], int]) -> None:
        thread = machine.thread
        thread.streams, thread.device = saved
        if stream.ident and thread.contexts:
            thread.contexts.pop()

    return restoring(save, enter, restore)


class Contexts:
    """Turns values into context managers."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def context(self, value: Value, node: ast.expr) -> Context:
        """See `Evaluator`."""
        evaluator = self._evaluator
        match value:
            case Context():
                return value
            case Stream():
                return stream_context(evaluator.machine, value, node)
            case Generator(values=values):
                return Context(lambda: next(values, UNKNOWN), lambda: next(values, UNKNOWN))
            case Instance():
                enter, leave = value.kind.find("__enter__"), value.kind.find("__exit__")
                if isinstance(enter, Function) and isinstance(leave, Function):
                    return Context(
                        lambda: evaluator.call_function(enter, Call(node, [value])),
                        lambda: evaluator.call_function(leave, Call(node, [value, NONE, NONE, NONE])),
                    )
            case _:
                pass
        return self._unknown(value, node)

    def _unknown(self, value: Value, node: ast.expr) -> Context:
        """Return the context of an unknown value. It may make any stream current if it mentions streams or devices."""
        text = ast.unparse(node).lower()
        if "coalescing" in text:
            collectives = self._evaluator.collectives
            return Context(collectives.begin_coalescing, collectives.end_coalescing)
        is_plain = _FORWARD_CONTEXT.search(text) or not any(word in text for word in _MAYBE_STREAMS)
        if is_plain:
            return Context(
                lambda: value,
                lambda: None if _ORDERS_NOTHING.search(text) else self._evaluator.machine.assume_synchronized(),
            )
        thread = self._evaluator.machine.thread

        def enter() -> Value:
            thread.streams = unknown_streams()
            return UNKNOWN

        def restore(streams: dict[int, StreamId]) -> None:
            thread.streams = streams

        return restoring(lambda: dict(thread.streams), enter, restore)


def within(context: Context, run: Callable[[], Value]) -> Value:
    """Run something inside a context manager and return its result."""
    context.enter()
    try:
        return run()
    finally:
        context.leave()


def wait_for_work(machine: Machine, polled: Value, node: ast.AST) -> bool:
    """Let the host wait until the work of an event or a stream is complete; return whether it is known."""
    if isinstance(polled, Event) and not polled.escaped and polled.recorded is not None:
        machine.sync_event(polled, node)
    elif isinstance(polled, Stream) and polled.ident:
        machine.sync_stream(polled.ident, node, explicit=True)
    else:
        return False
    return True
