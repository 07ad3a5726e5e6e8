"""Time passes in a separate thread, which acts in the main thread only where that is safe."""

import threading
import time
from types import SimpleNamespace

import pytest

from syncheck.run.ticker import Ticker


@pytest.fixture
def main_thread():
    """Return a main thread that runs requested actions at once, in the requesting thread, and counts them."""
    state = SimpleNamespace(n_interrupts=0, ticks=0, after=0, safe=True, frames=[], pauses=[], done=threading.Event())

    def interrupt(act):
        state.n_interrupts += 1
        act(SimpleNamespace(number=state.n_interrupts))
        return True

    def is_safe(frame):
        state.frames.append(frame.number)
        return state.safe if isinstance(state.safe, bool) else state.safe(frame)

    def tick():
        state.ticks += 1
        if not state.pauses:
            state.done.set()
            return None
        return state.pauses.pop(0)

    def after():
        state.after += 1
        assert threading.current_thread().name == "syncheck-budget"

    state.ticker = Ticker(tick, is_safe, after, interrupt)
    return state


def test_the_ticker_acts_until_it_is_no_longer_needed(main_thread):
    main_thread.pauses = [0.0, 0.001, 0.0]
    with main_thread.ticker.running(0.0):
        assert main_thread.done.wait(10)
    assert main_thread.ticks == 4
    assert main_thread.after >= 3


def test_an_unsafe_point_is_retried(main_thread):
    main_thread.safe = lambda frame: frame.number > 5
    with main_thread.ticker.running(0.0):
        assert main_thread.done.wait(10)
    assert main_thread.n_interrupts == 6
    assert main_thread.ticks == 1


def test_a_full_queue_of_pending_calls_is_retried(main_thread):
    answers = [False, False, True]
    n_interrupts = []

    def interrupt(act):
        n_interrupts.append(answers[0])
        if answers.pop(0):
            act(None)
            return True
        return False

    ticker = Ticker(main_thread.ticker._tick, lambda _: True, lambda: None, interrupt)
    with ticker.running(0.0):
        assert main_thread.done.wait(10)
    assert n_interrupts == [False, False, True]


def test_an_unresponsive_main_thread_is_abandoned(main_thread):
    pending = []
    ticker = Ticker(main_thread.ticker._tick, lambda _: True, lambda: None, lambda act: not pending.append(act))
    with ticker.running(0.0):
        while not pending:
            time.sleep(0.001)
    pending[0](None)  # it responds after all
    assert main_thread.ticks == 0


def test_a_short_run_requests_nothing(main_thread):
    with main_thread.ticker.running(1000.0):
        pass
    assert main_thread.n_interrupts == 0
