"""Defers signals that arrive while our own code runs until the program's code runs again.

Python calls a handler between any two instructions of the main thread, and so inside our hooks, too. There, GPU calls
of the handler would go unseen, and its exceptions would be lost in a callback or leave our state inconsistent. The
program's handlers are therefore called through wrappers that defer them while a hook runs, until the program gets to
its next instruction, calls a function, or a function returns to it. In addition, the signal is sent again periodically.

Source:
    Python library reference, `signal`, section "Execution of Python signal handlers"; `sys.setprofile`, `sys.settrace`.
"""

import _signal  # type: ignore[import-not-found]  # not in typeshed; `signal` would convert the handlers
import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

from syncheck.source.frames import frame_at
from syncheck.system import processes

Handler = Callable[[int, FrameType | None], Any]

_HOOKS = (
    "syncheck.cuda", "syncheck.hb", "syncheck.instrument", "syncheck.sanitizer", "syncheck.sim", "syncheck.run.trace",
    "torch._library", "torch._ops", "torch.utils._python_dispatch",
)  # fmt: skip
"""Modules whose code interrupts the program's own: ours, and the code that torch runs around a mode."""
_TRANSPARENT = ("syncheck", "torch")
_PAUSE = 0.05
_MAX_DEFERRALS = 6
"""How often a handler is deferred at the same instruction while the main thread uses no CPU time. It is then blocked in
a call that the handler may have to end."""
_MAX_CPU_SHARE = 0.2
"""The largest share of CPU time that counts as blocked: our own handlers use some."""

_sleep, _start_thread = time.sleep, _thread.start_new_thread
_monotonic, _thread_time = time.monotonic, time.thread_time


class _Waiting:
    """Signals that arrived inside hooks and wait for the program's code to run again."""

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._sent: set[int] = set()  # signals sent again that have not arrived yet
        self._senders: set[int] = set()  # signals with a running sender thread
        self._position = (0, 0)
        self._times = 0
        self._since = (0.0, 0.0)  # wall-clock time, and CPU time of this thread
        self._pid = os.getpid()

    def begin(self) -> None:
        """Start deferring handlers in this process, which may be a fork of the one that imported this module."""
        self._pid = os.getpid()

    def forget(self) -> None:
        """Drop the deferred handlers."""
        self._handlers.clear()

    def arrive(self, number: int, frame: FrameType | None, handler: Handler) -> None:
        """Call or defer the handler of a signal that has arrived in a frame of the main thread."""
        is_again = number in self._sent
        self._sent.discard(number)
        if is_again and number not in self._handlers:
            return  # already handled
        if frame is None or os.getpid() != self._pid or not is_in_hook(frame) or self._is_blocked(frame):
            self._handlers.pop(number, None)
            handler(number, frame)
            return
        self._handlers[number] = handler
        self._watch(frame)
        if number not in self._senders:
            self._senders.add(number)
            try:
                _start_thread(self._send, (number,))
            except RuntimeError:  # no more threads can be started
                self._senders.discard(number)

    def _is_blocked(self, frame: FrameType) -> bool:
        now, position = (_monotonic(), _thread_time()), (id(frame), frame.f_lasti)
        if position != self._position:
            self._position, self._times, self._since = position, 0, now
        self._times += 1
        passed, computed = (later - earlier for later, earlier in zip(now, self._since, strict=True))
        return self._times > _MAX_DEFERRALS and computed < _MAX_CPU_SHARE * passed

    def _watch(self, frame: FrameType) -> None:
        """Detect when the program's code below a hook's frame runs again, unless a debugger traces it."""
        if sys.getprofile() is None:
            sys.setprofile(self._look)
        outside: FrameType | None = frame
        while outside is not None and is_in_hook(outside):
            outside = outside.f_back
        if outside is not None and sys.gettrace() is None:
            frame_at(0).f_trace_opcodes = True  # in Python 3.12, this is what `settrace` looks at
            sys.settrace(self._leave)
            outside.f_trace, outside.f_trace_opcodes = self._go_on, True  # in Python 3.13, without effect before that

    def _leave(self, _frame: FrameType, _event: str, _argument: Any) -> None:
        """Leave a called function untraced."""

    def _go_on(self, frame: FrameType, event: str, argument: Any) -> None:
        """Call deferred handlers when a frame of the program reaches its next instruction or returns.

        Not when it reaches a line: in Python 3.12 and 3.13, no `except` clause of the frame catches what is raised
        there if a loop jumps back to the line.
        """
        if event == "line":
            return
        frame.f_trace, frame.f_trace_opcodes = None, False
        if sys.gettrace() == self._leave:
            sys.settrace(None)
        self._look(frame, event, argument)

    def _look(self, frame: FrameType, _event: str, _argument: Any) -> None:
        """Call deferred handlers when a function is called or returns outside of hooks."""
        if os.getpid() == self._pid and is_in_hook(frame):
            return
        sys.setprofile(None)
        for number in list(self._handlers) if os.getpid() == self._pid else ():
            if number not in self._sent:
                self._handlers.pop(number)(number, frame)

    def _send(self, number: int) -> None:
        """Send a signal again periodically until it has been handled."""
        _sleep(_PAUSE)
        while number in self._handlers:
            self._sent.add(number)
            processes.send_to_main_thread(number, threading.main_thread().ident or 0)
            _sleep(_PAUSE)
        self._senders.discard(number)


def is_in_hook(frame: FrameType | None) -> bool:
    """Return whether a frame runs on behalf of a hook, without code of the program in between."""
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    if frame is not None and frame.f_globals.get("__name__") == "weakref":
        return True  # a weakref callback, whose exceptions are lost
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(_HOOKS):
            return True
        top = name.partition(".")[0]
        is_generated = frame.f_code.co_filename.startswith("<")  # such as methods of named tuples
        if top not in _TRANSPARENT and top not in sys.stdlib_module_names and not is_generated:
            return False
        frame = frame.f_back
    return False


_waiting = _Waiting()
arrive = _waiting.arrive


class _DeferringHandler:
    """Wraps a handler of the program; defers it while a hook runs.

    Attributes:
        handler: the program's handler.
    """

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        arrive(number, frame, self.handler)


_is_held: list[bool] = []


@contextmanager
def held() -> Iterator[None]:
    """Defer the program's handlers while a hook runs, for the duration of a block, transparently to the program.

    This has an effect only in the main thread, and not inside another such block.
    """
    if _is_held or threading.current_thread() is not threading.main_thread():
        yield
        return
    _is_held.append(True)
    _waiting.begin()
    original = signal.signal, signal.getsignal
    signal.signal, signal.getsignal = _replacements(*original)
    for number in signal.valid_signals():
        _exchange(
            number,
            lambda handler: _DeferringHandler(handler) if type(handler) is not int and callable(handler) else None,
        )
    try:
        yield
    finally:
        _is_held.clear()
        signal.signal, signal.getsignal = original
        if threading.current_thread() is threading.main_thread():
            for number in signal.valid_signals():
                _exchange(number, lambda handler: handler.handler if isinstance(handler, _DeferringHandler) else None)


@contextmanager
def dropped() -> Iterator[None]:
    """Drop signals that have a handler of the program, for a block that ends the process. Ctrl-C still interrupts it.

    Handlers run in the main thread only. In another thread, this has no effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _waiting.forget()
    handlers = {}
    for number in signal.valid_signals():
        handler = _signal.getsignal(number)
        if callable(handler) and not isinstance(handler, int) and _own(handler) is not signal.default_int_handler:
            handlers[number] = handler
            _signal.signal(number, _ignore)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            _signal.signal(number, handler)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. Unlike SIG_IGN, this does not change how ended child processes are waited for."""


def _exchange(number: int, replaced: Callable[[Any], Any]) -> None:
    """Replace a signal's handler, unless there is no replacement."""
    new = replaced(_signal.getsignal(number))
    if new is not None:
        _signal.signal(number, new)


def _replacements(set_handler: Any, get_handler: Any) -> tuple[Any, Any]:
    @wraps(set_handler)
    def set_deferring(signalnum: Any, handler: Any) -> Any:
        is_function = callable(handler) and not isinstance(handler, signal.Handlers | int)
        return _own(set_handler(signalnum, _DeferringHandler(handler) if is_function else handler))

    @wraps(get_handler)
    def get_original(signalnum: Any) -> Any:
        return _own(get_handler(signalnum))

    return set_deferring, get_original


def _own(handler: Any) -> Any:
    """Return the program's own handler from its wrapper."""
    return handler.handler if isinstance(handler, _DeferringHandler) else handler
