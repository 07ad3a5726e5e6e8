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
    """Has a state for each thread, and what is shared by all."""

    log = []  # noqa: RUF012  shared by all threads
    inherited = []  # noqa: RUF012  shared by all threads
    is_checking = True

    def __init__(self):
        self.state = ThreadState()

    def thread_state(self):
        return self.state

    def new_mode(self):
        Watcher.inherited.append(self.state.inherited)
        return Mode(Watcher.log)


@pytest.fixture
def watcher():
    Watcher.log, Watcher.inherited, Watcher.is_checking = [], [], True
    patches, made = Patches(), Watcher()
    install_threads(made, patches)
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


def test_it_knows_what_was_current_where_it_was_started(watcher):
    watcher.state.device, watcher.state.streams = 1, {1: 7}
    run()
    watcher.state.streams[1] = 9
    assert Watcher.inherited == [(1, {1: 7})]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_leaves_the_mode_too(watcher):
    def fail():
        raise ZeroDivisionError

    run(fail)
    assert [what for what, _ in Watcher.log] == ["enter", "leave"]


def test_a_thread_that_is_started_afterwards_is_not_watched(watcher):
    Watcher.is_checking = False
    run()
    assert Watcher.log == []
