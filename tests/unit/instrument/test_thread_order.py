"""Synchronization objects that order threads."""

import contextlib
import multiprocessing
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue

import pytest

from syncheck.instrument.patching import Patches
from syncheck.instrument.thread_order import install_thread_order
from syncheck.source.frames import frames_of_threads

EVENT_METHODS = {name: getattr(threading.Event, name) for name in ("set", "wait", "is_set")}


class Hosts:
    """Records ordering calls, except those of threads that are already running, such as pytest-xdist's."""

    def __init__(self):
        self._strangers = frames_of_threads().keys() - {threading.get_ident()}
        self.has_threads = True
        self.is_checking = True
        self.calls = []
        self.thing = None

    def sync_of(self, thing):
        return thing

    def release(self, sync):
        self._keep("release", sync)

    def begin_task(self, sync):
        self._keep("begin task", None)

    def acquire(self, sync):
        self._keep("acquire", sync)

    def _keep(self, call, sync):
        if threading.get_ident() not in self._strangers:
            self.calls.append(call)
            self.thing = self.thing if sync is None else sync


@pytest.fixture
def hosts():
    made, patches = Hosts(), Patches()
    install_thread_order(made, lambda: made.is_checking, patches)
    yield made
    patches.undo()


def new_set_event():
    event = threading.Event()
    EVENT_METHODS["set"](event)
    return event


def new_queue(size=0, items=1):
    made = Queue(size)
    made.queue.extend(range(items))
    made.unfinished_tasks = items
    return made


def exhausted_semaphore():
    made = threading.BoundedSemaphore(1)
    made._value = 0
    return made


def finished_future():
    made = Future()
    made._result, made._state = 5, "FINISHED"
    return made


@pytest.mark.parametrize(
    ("make", "use", "expected"),
    [
        (threading.Event, lambda e: e.set(), ["release"]),
        (new_set_event, lambda e: e.wait(), ["acquire"]),
        (threading.Event, lambda e: e.wait(0), []),
        (new_set_event, lambda e: e.is_set(), ["acquire"]),
        (threading.Event, lambda e: e.is_set(), []),
        (threading.Event, lambda e: e.clear(), []),
        (new_queue, lambda q: q.put(1), ["release"]),
        (lambda: new_queue(2), lambda q: q.put(1, timeout=1), ["release", "acquire"]),
        (new_queue, lambda q: q.get(), ["release", "acquire"]),
        (new_queue, lambda q: q.get_nowait(), ["release", "acquire"]),
        (new_queue, lambda q: q.put_nowait(1), ["release"]),
        (threading.Semaphore, lambda s: s.release(), ["release"]),
        (threading.Semaphore, lambda s: s.acquire(), ["acquire"]),
        (lambda: threading.Semaphore(0), lambda s: s.acquire(timeout=0.01), []),
        (exhausted_semaphore, lambda s: s.release(), ["release"]),
        (lambda: threading.Barrier(1), lambda b: b.wait(), ["release", "acquire"]),
        (Future, lambda f: f.set_result(1), ["release"]),
        (Future, lambda f: f.set_exception(ValueError()), ["release"]),
        (finished_future, lambda f: f.result(), ["acquire"]),
        (finished_future, lambda f: f.exception(), ["acquire"]),
        (finished_future, lambda f: f.done(), ["acquire"]),
        (Future, lambda f: f.done(), []),
    ],
)
def test_each_call_releases_and_acquires_as_expected(hosts, make, use, expected):
    thing = make()
    use(thing)
    assert hosts.calls == expected
    assert not expected or hosts.thing is thing


def test_methods_return_their_usual_results(hosts):
    assert new_queue().get() == 0
    assert new_set_event().wait(timeout=1) is True
    assert threading.Event().wait(0) is False


def test_a_release_precedes_the_call_and_an_acquire_follows_it(hosts):
    seen = []

    class Slow(Queue):
        def _get(self):
            seen.extend(hosts.calls)
            return super()._get()

    slow = Slow()
    slow.queue.append(1)
    slow.get()
    assert seen == ["release"]
    assert hosts.calls == ["release", "acquire"]


def test_a_task_begins_after_its_submission_and_before_its_result(hosts):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(int).result() == 0
    began = hosts.calls.index("begin task")  # the semaphore and the future of the pool surround it
    assert "release" in hosts.calls[:began]
    assert "release" in hosts.calls[began:]
    assert "acquire" in hosts.calls[began:]


def test_a_failed_call_acquires_nothing(hosts):
    with contextlib.suppress(queue.Empty):
        Queue().get(timeout=0)
    with contextlib.suppress(queue.Full):
        new_queue(1, items=1).put(2, timeout=0)
    assert hosts.calls == ["release", "release"]


@pytest.mark.parametrize(("has_threads", "is_checking"), [(False, True), (True, False)])
def test_calls_are_not_tracked_with_a_single_thread_or_while_not_checking(hosts, has_threads, is_checking):
    hosts.has_threads, hosts.is_checking = has_threads, is_checking
    new_set_event().is_set()
    assert new_queue().get() == 0
    assert hosts.calls == []


def test_a_thread_that_was_already_running_is_ignored():
    stop, acts = threading.Event(), threading.Event()

    def act():
        while not EVENT_METHODS["is_set"](stop):
            Queue().put(1)
            EVENT_METHODS["set"](acts)

    stranger = threading.Thread(target=act)
    stranger.start()
    made, patches = Hosts(), Patches()
    install_thread_order(made, lambda: True, patches)
    acts.clear()
    EVENT_METHODS["wait"](acts)
    patches.undo()
    EVENT_METHODS["set"](stop)
    stranger.join()
    assert made.calls == []


def test_methods_are_restored():
    patches = Patches()
    install_thread_order(Hosts(), lambda: True, patches)
    assert threading.Event.wait is not EVENT_METHODS["wait"]
    assert threading.Event.wait.__doc__ == EVENT_METHODS["wait"].__doc__
    patches.undo()
    assert {name: getattr(threading.Event, name) for name in EVENT_METHODS} == EVENT_METHODS


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_the_thread_that_feeds_a_queue_for_processes_comes_after_each_put(hosts, kind):
    made = getattr(multiprocessing, kind)()
    hosts.calls.clear()
    for number in range(2):
        made.put(number)
        assert made.get(timeout=30) == number
    made.close()
    made.join_thread()
    queue_calls = [call for call in hosts.calls if call in {"release", "acquire"}]
    assert queue_calls[0] == "release"
    assert hosts.calls.count("acquire") >= 2
