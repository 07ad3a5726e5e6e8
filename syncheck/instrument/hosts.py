"""The program's threads as hosts: which one acts, what orders them, and when one may have observed others."""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import thread as pools
from functools import partial
from itertools import count
from types import CodeType, FrameType
from typing import Any, NamedTuple

from syncheck.hb.ids import EVERY_THREAD, MAIN_THREAD, HostId, SyncId
from syncheck.instrument.locked_monitor import LockedMonitor
from syncheck.instrument.sites import is_launcher_code
from syncheck.instrument.thread_isolation import is_in_loop, is_isolated
from syncheck.source.frames import frame_at
from syncheck.source.lines import is_user_file

_MAX_FRAMES = 256
_THREAD_STARTERS = frozenset(
    {threading.__file__, pools.__file__, os.path.join(os.path.dirname(__file__), "threads.py")}
)
"""Files whose code starts threads and tasks."""


class _Position(NamedTuple):
    """Position of a frame of the program; `is_direct`: called directly by the program's next outer frame."""

    frame: int
    code: CodeType
    lasti: int
    is_direct: bool


class _Local(threading.local):
    """State of the calling thread.

    Attributes:
        host: its id; EVERY_THREAD for a thread that the program has not started.
        thread: its thread object.
        start: the object that orders the thread after its start; None once it has been acquired.
        has_acted: whether the monitor has seen the thread.
        has_worked: whether the thread has made a GPU call.
        n_calls: number of GPU calls by all threads as of its last call.
        has_unobserved: another thread has acted, and this thread is known not to have observed it.
        call: marks the program's call that the thread made last.
        stack: the thread's position then, outermost frame first; None if unknown, empty at the start of a thread.
    """

    host = EVERY_THREAD
    thread: threading.Thread | None = None
    start: SyncId | None = None
    has_acted = False
    has_worked = False
    n_calls = 0
    has_unobserved = False
    call: object = None
    stack: list[_Position] | None = None


class Hosts:
    """Reports to the monitor which thread acts, and what orders threads.

    Attributes:
        has_threads: whether the program has started a thread.
        on_first_thread: called before the program starts its first thread.
        monitor: the monitor that the threads call.

    Args:
        monitor: receives the calls, before those that the thread makes itself.
    """

    def __init__(self, monitor: LockedMonitor) -> None:
        self.has_threads = False
        self.on_first_thread: Callable[[], None] = lambda: None
        self.monitor = monitor
        self._monitor = monitor.direct
        self._local = _Local()
        self._local.host = MAIN_THREAD
        self._local.thread = threading.current_thread()
        self._acting = MAIN_THREAD
        self._n_calls = 0  # number of GPU calls so far, by all threads
        self._n_workers = 0
        self._idents, self._sync_idents = count(2), count(1)
        self._objects: dict[int, tuple[weakref.ref[Any], SyncId]] = {}

    # -- calls of the monitor

    def enter(self) -> None:
        """Report the calling thread before it calls the monitor; the lock is held."""
        local = self._local
        if not local.has_worked:
            local.has_worked = True
            self._n_workers += 1
        if self._acting != local.host or self._n_workers > 1 or local.has_unobserved or local.n_calls != self._n_calls:
            self._act(local)
        self._n_calls += 1
        local.n_calls = self._n_calls

    def _act(self, local: _Local) -> None:
        if self._acting != local.host:
            self._acting = local.host
            self._monitor.host(local.host, local.thread.name if local.thread is not None else "")
        local.has_acted = True
        if local.start is not None:
            self._monitor.acquire(local.start)
            local.start = None
        local.has_unobserved = local.has_unobserved or local.n_calls != self._n_calls
        if local.host != EVERY_THREAD:
            self._order_if_observed(local, frame_at(2))
        local.n_calls = self._n_calls

    def _order_if_observed(self, local: _Local, frame: FrameType | None) -> None:
        """Order the thread after all others if it may have observed them since its last call."""
        call, frames = _program_frames(frame)
        if not frames:
            return  # only known code that starts and ends threads
        is_same = call is not None and call.f_trace is local.call is not None
        stack = None if len(frames) > _MAX_FRAMES else _stack(frames)
        if not is_same and local.has_unobserved:
            local.has_unobserved = (
                stack is not None and local.stack is not None and _was_isolated(local.stack, stack, frames)
            )
            if not local.has_unobserved:
                self._monitor.acquire_all()
        if not is_same:
            local.call = _mark(call)
        local.stack = stack

    # -- ordering of threads

    def start(self, thread: threading.Thread) -> None:
        """Order the calling thread's work so far before a thread that it is about to start."""
        if not self.has_threads:
            self.on_first_thread()
            self.has_threads = True
            self.monitor.before_call = self.enter
        self.release(self.sync_of(thread))

    def begin(self, thread: threading.Thread) -> None:
        """Register the calling thread, which has just been started."""
        local = self._local
        local.host, local.thread, local.start = HostId(next(self._idents)), thread, self.sync_of(thread)
        local.n_calls, local.stack = self._n_calls, []
        local.has_unobserved = True  # about work since the thread was started

    def begin_task(self, submitted: SyncId) -> None:
        """Begin a task in a pool's thread, ordered after what came before its submission."""
        self.acquire(submitted)
        self._local.stack = []
        self._local.has_unobserved = True

    def end(self, thread: threading.Thread) -> None:
        """Order the work of the calling thread, which ends, before any later join."""
        if self._local.has_acted:
            self.release(self.sync_of(thread))
        self._n_workers -= self._local.has_worked

    def joined(self, thread: threading.Thread) -> None:
        """Order the calling thread after another whose end it has waited for."""
        if self.has_threads:
            self.acquire(self.sync_of(thread))

    def release(self, sync: SyncId) -> None:
        """Order what the calling thread did so far before every later acquire of the same object."""
        with self.monitor.lock:
            self.monitor.catch_up()
            self._act(self._local)
            self._monitor.release(sync)

    def acquire(self, sync: SyncId) -> None:
        """Order the calling thread after everything released to an object."""
        with self.monitor.lock:
            self.monitor.catch_up()
            self._act(self._local)
            self._monitor.acquire(sync)

    def sync_of(self, thing: Any) -> SyncId:
        """Return the id of an object that orders threads."""
        key = id(thing)
        with self.monitor.lock:
            known = self._objects.get(key)
            if known is None or known[0]() is not thing:
                ident = SyncId(next(self._sync_idents))
                known = self._objects[key] = (weakref.ref(thing, partial(self._gone, key, ident)), ident)
        return known[1]

    def _gone(self, key: int, ident: SyncId, reference: Any) -> None:
        known = self._objects.get(key)
        if known is not None and known[0] is reference:
            del self._objects[key]
        self.monitor.later("forget_sync", ident)


def _program_frames(frame: FrameType | None) -> tuple[FrameType | None, list[FrameType]]:
    """Return the frame that the program called on the way here, if any, and the program's frames, innermost first."""
    call: FrameType | None = None
    frames: list[FrameType] = []
    while frame is not None and not is_launcher_code(frame.f_code):
        if is_user_file(frame.f_code.co_filename):
            frames.append(frame)
        elif not frames:
            call = frame
        frame = frame.f_back
    return call, frames


def _stack(frames: list[FrameType]) -> list[_Position]:
    outer = [*frames[1:], None]
    stack = [
        _Position(id(frame), frame.f_code, frame.f_lasti, caller is None or frame.f_back is caller)
        for frame, caller in zip(frames, outer, strict=True)
    ]
    return stack[::-1]


def _mark(call: FrameType | None) -> object:
    """Mark a frame outside of the program as belonging to one call; return the mark.

    Frames have no lasting identity, and holding a frame would keep its variables alive. A trace function set on a
    frame is not called unless the thread is traced.
    """
    if call is None or call.f_trace is not None:
        return None
    mark = partial(_ignore)
    call.f_trace = mark
    return mark


def _ignore(*_: Any) -> None:
    return None


def _was_isolated(old: list[_Position], new: list[_Position], frames: list[FrameType]) -> bool:
    """Return whether a thread has observed nothing of other threads between an earlier position and its current one."""
    running = frames[::-1]
    common = 0
    while common < min(len(old), len(new)) and old[common] == new[common]:
        common += 1
    if not old:  # the start of the thread, or of a task
        return _is_started_by(running[0].f_back) and _were_entered_directly(new, running, 0)
    if common == len(old) == len(new):
        common -= 1  # the same position again: a loop has led there
    if common in {len(old), len(new)} or old[common][:2] != new[common][:2]:
        return False
    if len(old) > common + 1:
        return False  # functions have returned in between
    # an outer loop may have called the function again
    is_once = not any(is_in_loop(at.code, at.lasti) or not at.is_direct for at in new[:common])
    here = is_isolated(running[common], old[common].lasti, new[common].lasti, is_once=is_once and new[common].is_direct)
    return here and _were_entered_directly(new, running, common + 1)


def _is_started_by(caller: FrameType | None) -> bool:
    """Return whether a frame starts a thread's work; other code may first wait for other threads."""
    return caller is not None and caller.f_code.co_filename in _THREAD_STARTERS


def _were_entered_directly(stack: list[_Position], running: list[FrameType], first: int) -> bool:
    """Return whether functions were called directly by each other and have observed nothing of other threads so far."""
    return all(
        at.is_direct and is_isolated(frame, None, at.lasti)
        for at, frame in zip(stack[first:], running[first:], strict=True)
    )
