"""Threads of the program."""

import threading

import pytest

from syncheck.instrument.patching import Patches
from syncheck.instrument.threads import install_threads
from syncheck.semantics.threads import ThreadState


class Mode:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append(("enter", threading.get_ident()))

    def __exit__(self, *error):
        self.log.append(("leave", threading.get_ident()))


class Watcher(threading.local):
    """Has state for each thread and state shared by all."""

    log = []  # noqa: RUF012  shared by all threads
    inherited = []  # noqa: RUF012  shared by all threads
    is_checking = True
    enters_threads = True

    def __init__(self):
        self.state = ThreadState()

    def thread_state(self):
        return self.state

    def new_mode(self):
        Watcher.inherited.append(self.state.inherited)
        return Mode(Watcher.log)


class Hosts:
    """Records what is reported about threads."""

    def __init__(self):
        self.reported = []

    def __getattr__(self, name):
        return lambda thing: self.reported.append((name, thing.name)) if isinstance(thing, threading.Thread) else None


@pytest.fixture
def hosts():
    return Hosts()


@pytest.fixture
def watcher(hosts):
    Watcher.log, Watcher.inherited, Watcher.is_checking = [], [], True
    patches, made = Patches(), Watcher()
    install_threads(made, hosts, patches)
    yield made
    patches.undo()


def run(target=lambda: None):
    thread = threading.Thread(target=target, name="t")
    thread.start()
    thread.join()


def test_a_thread_enters_the_mode_and_leaves_it(watcher):
    run(lambda: Watcher.log.append(("work", threading.get_ident())))
    assert [what for what, _ in Watcher.log] == ["enter", "work", "leave"]
    assert {ident for _, ident in Watcher.log} != {threading.get_ident()}
    assert len({ident for _, ident in Watcher.log}) == 1


def test_a_thread_inherits_the_state_current_at_its_start(watcher):
    watcher.state.device, watcher.state.streams = 1, {1: 7}
    run()
    watcher.state.streams[1] = 9
    assert Watcher.inherited == [(1, {1: 7})]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_also_leaves_the_mode(watcher):
    def fail():
        raise ZeroDivisionError

    run(fail)
    assert [what for what, _ in Watcher.log] == ["enter", "leave"]


def test_a_thread_started_after_the_check_is_not_watched(watcher):
    Watcher.is_checking = False
    run()
    assert Watcher.log == []


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
