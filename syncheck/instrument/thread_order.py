"""Hooks on objects that order threads: events, queues, semaphores, barriers, futures and thread pools.

Objects without a hook count as ordering, like code that was not seen.

Source:
    Python library reference, "threading", "queue" and "concurrent.futures". A join or wait that timed out orders
    nothing.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import thread as pools
from functools import wraps
from multiprocessing.queues import JoinableQueue
from multiprocessing.queues import Queue as ProcessQueue
from multiprocessing.reduction import ForkingPickler
from queue import Queue
from typing import Any

from syncheck.instrument.hosts import Hosts
from syncheck.instrument.patching import Patches


def install_thread_order(hosts: Hosts, is_checking: Callable[[], bool], patches: Patches) -> None:
    """Track synchronization objects once the program has started a thread."""

    def track(owner: type, name: str, *, releases: bool, acquires: Callable[[Any, Any], bool]) -> None:
        method = getattr(owner, name)

        @wraps(method)
        def tracked(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not (hosts.has_threads and is_checking()):
                return method(self, *args, **kwargs)
            sync = hosts.sync_of(self)
            if releases:
                hosts.release(sync)
            result = method(self, *args, **kwargs)
            if acquires(self, result):
                hosts.acquire(sync)
            return result

        patches.set(owner, name, tracked)

    track(threading.Event, "set", releases=True, acquires=_never)
    track(threading.Event, "wait", releases=False, acquires=_if_true)
    track(threading.Event, "is_set", releases=False, acquires=_if_true)
    track(Queue, "put", releases=True, acquires=_if_bounded)
    track(Queue, "get", releases=True, acquires=_always)
    for semaphore in (threading.Semaphore, threading.BoundedSemaphore):
        track(semaphore, "release", releases=True, acquires=_never)
    track(threading.Semaphore, "acquire", releases=False, acquires=_if_true)
    track(threading.Barrier, "wait", releases=True, acquires=_always)
    track(Future, "set_result", releases=True, acquires=_never)
    track(Future, "set_exception", releases=True, acquires=_never)
    track(Future, "result", releases=False, acquires=_always)
    track(Future, "exception", releases=False, acquires=_always)
    track(Future, "done", releases=False, acquires=_if_true)
    _install_tasks(hosts, is_checking, patches)
    _install_feeders(hosts, is_checking, patches)


class _Feeder(threading.local):
    """The queue that a thread feeds: the objects that are still to be sent to other processes."""

    buffer: Any = None


def _install_feeders(hosts: Hosts, is_checking: Callable[[], bool], patches: Patches) -> None:
    """Order the thread that sends what is put into a queue for processes after each put.

    Source:
        multiprocessing/queues.py: `put` appends to a buffer, from which `_feed` takes and pickles objects.
    """
    feed, dumps, feeder = ProcessQueue._feed, ForkingPickler.dumps, _Feeder()  # type: ignore[attr-defined]

    def tracked(put: Callable[..., None]) -> Callable[..., None]:
        @wraps(put)
        def put_tracked(self: Any, *args: Any, **kwargs: Any) -> None:
            if is_checking():  # the first put starts the thread
                hosts.release(hosts.sync_of(self._buffer))
            put(self, *args, **kwargs)

        return put_tracked

    @wraps(feed)
    def feed_tracked(buffer: Any, *args: Any, **kwargs: Any) -> None:
        feeder.buffer = buffer
        feed(buffer, *args, **kwargs)

    @wraps(dumps)
    def dumps_tracked(_: Any, *args: Any, **kwargs: Any) -> Any:
        if feeder.buffer is not None and is_checking():
            hosts.acquire(hosts.sync_of(feeder.buffer))
        return dumps(*args, **kwargs)

    for kind in (ProcessQueue, JoinableQueue):
        patches.set(kind, "put", tracked(kind.put))
    patches.set(ProcessQueue, "_feed", staticmethod(feed_tracked))
    patches.set(ForkingPickler, "dumps", classmethod(dumps_tracked))


def _install_tasks(hosts: Hosts, is_checking: Callable[[], bool], patches: Patches) -> None:
    """Order each task of a thread pool after its submission; its thread has observed nothing since then.

    Source:
        concurrent/futures/thread.py: `submit` creates a `_WorkItem`, and a thread of the pool calls its `run`.
    """
    task: Any = pools._WorkItem
    make, run = task.__init__, task.run

    @wraps(make)
    def make_tracked(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if hosts.has_threads and is_checking():
            hosts.release(hosts.sync_of(self))

    @wraps(run)
    def run_tracked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if hosts.has_threads and is_checking():
            hosts.begin_task(hosts.sync_of(self))
        return run(self, *args, **kwargs)

    patches.set(task, "__init__", make_tracked)
    patches.set(task, "run", run_tracked)


def _never(owner: Any, result: Any) -> bool:
    del owner, result
    return False


def _always(owner: Any, result: Any) -> bool:
    del owner, result
    return True


def _if_true(owner: Any, result: Any) -> bool:
    del owner
    return bool(result)


def _if_bounded(owner: Any, result: Any) -> bool:
    """Return whether a put may have waited for a get, because the queue is bounded."""
    del result
    return bool(owner.maxsize > 0)
