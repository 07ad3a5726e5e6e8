"""Threads of the program."""

import _thread
import queue
import threading

import pytest
from torch.utils._python_dispatch import TorchDispatchMode, is_in_torch_dispatch_mode

from syncheck.instrument.patching import Patches
from syncheck.instrument.threads import install_threads
from syncheck.instrument.torch_internals import current_dispatch_modes
from syncheck.semantics.threads import ThreadState


class Watcher(threading.local):
    """Has state for each thread and state shared by all."""

    modes = []  # noqa: RUF012  shared by all threads
    inherited = []  # noqa: RUF012  shared by all threads
    is_checking = True
    enters_threads = True

    def __init__(self):
        self.state = ThreadState()

    def thread_state(self):
        return self.state

    def new_mode(self):
        Watcher.inherited.append(self.state.inherited)
        Watcher.modes.append(TorchDispatchMode())
        return Watcher.modes[-1]


class Hosts:
    """Records what is reported about threads, and the modes in which a thread ends."""

    def __init__(self):
        self.reported = []
        self.modes_at_end = None

    def __getattr__(self, name):
        return lambda thing: self.reported.append((name, thing.name)) if isinstance(thing, threading.Thread) else None

    def end(self, thread):
        self.modes_at_end = current_dispatch_modes()
        self.reported.append(("end", thread.name))


@pytest.fixture
def hosts():
    return Hosts()


@pytest.fixture
def watcher(hosts):
    Watcher.modes, Watcher.inherited, Watcher.is_checking = [], [], True
    patches, made = Patches(), Watcher()
    install_threads(made, hosts, patches)
    yield made
    patches.undo()


def run(target=lambda: None):
    thread = threading.Thread(target=target, name="t")
    thread.start()
    thread.join()


def test_a_thread_enters_the_mode_and_leaves_it(watcher, hosts):
    inside = []
    run(lambda: inside.extend(current_dispatch_modes()))
    assert len(inside) == 1
    assert inside == Watcher.modes
    assert hosts.modes_at_end == []
    assert current_dispatch_modes() == []


def test_a_thread_that_outlives_the_check_leaves_torchs_flag_alone(watcher):
    has_begun, go_on = threading.Event(), threading.Event()

    def target():
        has_begun.set()
        go_on.wait()

    thread = threading.Thread(target=target)
    with TorchDispatchMode():
        thread.start()
        has_begun.wait()
    go_on.set()
    thread.join()
    assert not is_in_torch_dispatch_mode()


def test_a_thread_inherits_the_state_current_at_its_start(watcher):
    watcher.state.device, watcher.state.streams = 1, {1: 7}
    run()
    watcher.state.streams[1] = 9
    assert Watcher.inherited == [(1, {1: 7})]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_also_leaves_the_mode(watcher, hosts):
    def fail():
        raise ZeroDivisionError

    run(fail)
    assert len(Watcher.modes) == 1
    assert hosts.modes_at_end == []


def test_a_thread_started_after_the_check_is_not_watched(watcher):
    Watcher.is_checking = False
    run()
    assert Watcher.modes == []


def test_ordering_calls_of_a_thread_are_reported(watcher, hosts):
    run()
    assert hosts.reported == [("start", "t"), ("begin", "t"), ("end", "t"), ("joined", "t")]


def test_a_join_that_timed_out_orders_nothing(watcher, hosts):
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, name="t")
    thread.start()
    thread.join(0)
    assert ("joined", "t") not in hosts.reported
    go_on.set()
    thread.join()
    assert hosts.reported[-1] == ("joined", "t")


def test_a_thread_that_threading_does_not_know_enters_the_mode(watcher, hosts):
    seen = queue.Queue()
    _thread.start_new_thread(lambda *values: seen.put((values, len(Watcher.modes))), (1, 2))
    assert seen.get(timeout=30) == ((1, 2), 1)
    assert hosts.reported == []
