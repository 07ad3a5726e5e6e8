"""The threads of the program as hosts: which one acts, what orders them, and where one may have got word of others."""

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
from syncheck.instrument.blind import is_blind, is_in_loop
from syncheck.instrument.locked_monitor import LockedMonitor
from syncheck.instrument.sites import is_outside
from syncheck.source.frames import frame_at
from syncheck.source.lines import is_user_file

_MOST_FRAMES = 256
_BEGINNING = frozenset({threading.__file__, pools.__file__, os.path.join(os.path.dirname(__file__), "threads.py")})
"""Files whose code begins threads and tasks."""


class _At(NamedTuple):
    """Where a frame of the program is; `is_direct`: the program's next outer frame has called it itself."""

    frame: int
    code: CodeType
    lasti: int
    is_direct: bool


class _Local(threading.local):
    """The calling thread.

    Attributes:
        host: its id; EVERY_THREAD for one that the program has not started.
        thread: its object.
        start: what orders it after its start; None once it is.
        has_acted: the monitor knows it.
        has_worked: it has made a call of a GPU.
        turn: how many calls of GPUs there had been at its last call.
        has_news: another thread has acted, and this one is known not to have got word of it.
        call: marks the call of the program that it made last.
        stack: where it was then, outermost first; None where that is not known, empty at the beginning of a thread.
    """

    host = EVERY_THREAD
    thread: threading.Thread | None = None
    start: SyncId | None = None
    has_acted = False
    has_worked = False
    turn = 0
    has_news = False
    call: object = None
    stack: list[_At] | None = None


class Hosts:
    """Says to the monitor which thread acts, and what orders threads.

    Attributes:
        are_several: the program has started a thread.
        on_several: called before it starts the first one.
        monitor: what threads call.

    Args:
        monitor: gets the calls, before those that the thread makes itself.
    """

    def __init__(self, monitor: LockedMonitor) -> None:
        self.are_several = False
        self.on_several: Callable[[], None] = lambda: None
        self.monitor = monitor
        self._monitor = monitor.direct
        self._local = _Local()
        self._local.host = MAIN_THREAD
        self._local.thread = threading.current_thread()
        self._acting = MAIN_THREAD
        self._turn = 0  # calls of GPUs so far, by whichever thread
        self._n_workers = 0
        self._idents, self._sync_idents = count(2), count(1)
        self._objects: dict[int, tuple[weakref.ref[Any], SyncId]] = {}

    # -- calls of the monitor

    def enter(self) -> None:
        """The calling thread is about to make a call of the monitor; the lock is held."""
        local = self._local
        if not local.has_worked:
            local.has_worked = True
            self._n_workers += 1
        if self._acting != local.host or self._n_workers > 1 or local.has_news or local.turn != self._turn:
            self._act(local)
        self._turn += 1
        local.turn = self._turn

    def _act(self, local: _Local) -> None:
        if self._acting != local.host:
            self._acting = local.host
            self._monitor.host(local.host, local.thread.name if local.thread is not None else "")
        local.has_acted = True
        if local.start is not None:
            self._monitor.acquire(local.start)
            local.start = None
        local.has_news = local.has_news or local.turn != self._turn
        if local.host != EVERY_THREAD:
            self._look(local, frame_at(2))
        local.turn = self._turn

    def _look(self, local: _Local, frame: FrameType | None) -> None:
        """Order the thread after all others if it may have got word of them since its last call."""
        call, frames = _program_frames(frame)
        if not frames:
            return  # threads are begun and ended by code that is known
        is_same = call is not None and call.f_trace is local.call is not None
        stack = None if len(frames) > _MOST_FRAMES else _stack(frames)
        if not is_same and local.has_news:
            local.has_news = stack is not None and local.stack is not None and _is_blind(local.stack, stack, frames)
            if not local.has_news:
                self._monitor.acquire_all()
        if not is_same:
            local.call = _mark(call)
        local.stack = stack

    # -- what orders threads

    def start(self, thread: threading.Thread) -> None:
        """The calling thread is about to start another one."""
        if not self.are_several:
            self.on_several()
            self.are_several = True
            self.monitor.before_call = self.enter
        self.release(self.sync_of(thread))

    def begin(self, thread: threading.Thread) -> None:
        """The calling thread begins: it has been started."""
        local = self._local
        local.host, local.thread, local.start = HostId(next(self._idents)), thread, self.sync_of(thread)
        local.turn, local.stack = self._turn, []
        local.has_news = True  # of what was done since it was started

    def begin_task(self, submitted: SyncId) -> None:
        """The calling thread, of a pool, begins a task: it knows what others had done when it was submitted."""
        self.acquire(submitted)
        self._local.stack = []
        self._local.has_news = True

    def end(self, thread: threading.Thread) -> None:
        """The calling thread ends."""
        if self._local.has_acted:
            self.release(self.sync_of(thread))
        self._n_workers -= self._local.has_worked

    def joined(self, thread: threading.Thread) -> None:
        """The calling thread has waited for the end of another one."""
        if self.are_several:
            self.acquire(self.sync_of(thread))

    def release(self, sync: SyncId) -> None:
        """What the calling thread did so far is before whoever acquires the same object."""
        with self.monitor.lock:
            self._act(self._local)
            self._monitor.release(sync)

    def acquire(self, sync: SyncId) -> None:
        """The calling thread goes on because others let it."""
        with self.monitor.lock:
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
    """Return the frame that the program called, on the way to here, and the program's own, innermost first."""
    call: FrameType | None = None
    frames: list[FrameType] = []
    while frame is not None and not is_outside(frame.f_code):
        if is_user_file(frame.f_code.co_filename):
            frames.append(frame)
        elif not frames:
            call = frame
        frame = frame.f_back
    return call, frames


def _stack(frames: list[FrameType]) -> list[_At]:
    outer = [*frames[1:], None]
    stack = [
        _At(id(frame), frame.f_code, frame.f_lasti, caller is None or frame.f_back is caller)
        for frame, caller in zip(frames, outer, strict=True)
    ]
    return stack[::-1]


def _mark(call: FrameType | None) -> object:
    """Mark a frame, which is none of the program's, as that of one call; return the mark.

    Frames have no identity of their own that lasts, and to hold one keeps what its variables hold. A trace function
    of a frame is not called unless the thread is traced.
    """
    if call is None or call.f_trace is not None:
        return None
    mark = partial(_ignore)
    call.f_trace = mark
    return mark


def _ignore(*_: Any) -> None:
    return None


def _is_blind(old: list[_At], new: list[_At], frames: list[FrameType]) -> bool:
    """Return whether a thread has looked at nothing of others on its way from one place to another, where it is now."""
    running = frames[::-1]
    common = 0
    while common < min(len(old), len(new)) and old[common] == new[common]:
        common += 1
    if not old:  # the thread begins, or a task
        return _is_begun_by(running[0].f_back) and _are_entered(new, running, 0)
    if common == len(old) == len(new):
        common -= 1  # the same place again: a loop has led there
    if common in {len(old), len(new)} or old[common][:2] != new[common][:2]:
        return False
    if len(old) > common + 1:
        return False  # functions have returned in between
    # a loop further out may have called the function again
    is_once = not any(is_in_loop(at.code, at.lasti) or not at.is_direct for at in new[:common])
    here = is_blind(running[common], old[common].lasti, new[common].lasti, is_once=is_once and new[common].is_direct)
    return here and _are_entered(new, running, common + 1)


def _is_begun_by(caller: FrameType | None) -> bool:
    """Return whether a frame begins what a thread runs; other code may wait for others before it calls the program."""
    return caller is not None and caller.f_code.co_filename in _BEGINNING


def _are_entered(stack: list[_At], running: list[FrameType], first: int) -> bool:
    """Return whether functions were called one by the other, and have looked at nothing yet."""
    return all(
        at.is_direct and is_blind(frame, None, at.lasti)
        for at, frame in zip(stack[first:], running[first:], strict=True)
    )
