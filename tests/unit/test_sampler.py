"""Windows open and close between the units of one thread, and no error of theirs gets into the program."""

import threading
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest

from syncheck.run.budget import Controller
from syncheck.run.sampler import Sampler


class Windows:
    """Keeps what was called; opening and closing takes time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.is_open = False
        self.errors: list[Exception] = []
        self.fails = False

    def open(self) -> None:
        if self.fails:
            raise RuntimeError("broken")
        self.clock.now += 0.01
        self.is_open = True

    def close(self) -> None:
        self.clock.now += 0.01
        self.is_open = False

    def failed(self, error: Exception) -> None:
        self.errors.append(error)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def program():
    """A program whose checked units take three times as long; `step` runs one and returns whether it was checked."""
    clock = Clock()
    windows = Windows(clock)
    safe = SimpleNamespace(here=True)
    sampler = Sampler(Controller(0.05), windows, clock, lambda: safe.here)

    def step(key=None, seconds=0.01):
        checked = windows.is_open
        clock.now += seconds * (3 if checked else 1)
        sampler.ended(key)
        return checked

    return SimpleNamespace(clock=clock, windows=windows, sampler=sampler, step=step, safe=safe)


def test_the_run_costs_what_the_budget_allows(program):
    checked = sum(program.step() for _ in range(20_000))
    assert program.clock.now <= 20_000 * 0.01 * 1.05
    assert checked > 100
    share = program.sampler.controller.share()
    assert share.checked == checked
    assert share.cost == pytest.approx(program.clock.now - 200, rel=0.05)


def first_checked(program, key, most=5000):
    return next(number for number in range(most) if program.step(key))


def test_a_call_site_that_was_not_seen_before_comes_first(program):
    for _ in range(2000):
        program.step("known")
    while not program.step("known"):
        pass
    while program.step("known"):
        pass
    new = first_checked(program, "new")
    while program.windows.is_open:
        program.step("new")
    assert new < first_checked(program, "known")


def test_the_beginning_of_an_epoch_comes_first_but_not_every_time(program):
    for _ in range(2000):
        program.step()
    opened = []  # how many windows there were with each that an epoch opened
    for _ in range(10):
        program.sampler.begins()
        if program.windows.is_open:
            opened.append(program.sampler.controller.share().windows)
        for _ in range(300):
            program.step()
    assert len(opened) > 1
    assert all(second - first > 1 for first, second in pairwise(opened))


def test_a_pause_closes_the_window(program):
    while not program.windows.is_open:
        program.step()
    program.sampler.pauses()
    assert not program.windows.is_open
    program.clock.now += 1000  # a long evaluation
    program.step()
    assert program.sampler.controller.share().cost < 1


def test_nothing_opens_or_closes_where_it_is_not_safe(program):
    program.safe.here = False
    assert not any(program.step() for _ in range(100))
    program.safe.here = True
    program.step()
    assert program.windows.is_open
    program.safe.here = False
    assert all(program.step() for _ in range(50))


def test_units_of_other_threads_do_not_count(program):
    program.step()
    thread = threading.Thread(target=lambda: [program.sampler.ended() for _ in range(50)])
    thread.start()
    thread.join()
    assert program.sampler.controller.number == 1
    assert not program.windows.is_open


def test_an_error_ends_the_checking_and_not_the_program(program):
    program.windows.fails = True
    assert not any(program.step() for _ in range(1000))
    assert [str(error) for error in program.windows.errors] == ["broken"]


def test_the_end_closes_the_window_and_no_other_opens(program):
    while not program.windows.is_open:
        program.step()
    program.sampler.end()
    assert not program.windows.is_open
    assert not any(program.step() for _ in range(5000))
