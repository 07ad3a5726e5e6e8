"""Windows open and close between the units of one thread, and their errors do not reach the program."""

import threading
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest

from syncheck.run.budget import Controller
from syncheck.run.sampler import SECOND, Sampler


class Windows:
    """Records its calls; opening and closing takes time."""

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
    """Return a program whose checked units take three times as long; `step` runs one and returns if it was checked."""
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


def test_the_run_stays_within_the_budget(program):
    checked = sum(program.step() for _ in range(20_000))
    assert program.clock.now <= 20_000 * 0.01 * 1.05
    assert checked > 100
    share = program.sampler.controller.share()
    assert share.checked == checked
    assert share.cost == pytest.approx(program.clock.now - 200, rel=0.05)


def first_checked(program, key, most=5000):
    return next(number for number in range(most) if program.step(key))


def test_a_new_call_site_takes_precedence(program):
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


def test_the_start_of_an_epoch_takes_precedence_but_not_every_time(program):
    for _ in range(2000):
        program.step()
    opened = []  # number of windows so far, at each window that an epoch opened
    for _ in range(10):
        program.sampler.begin_phase()
        if program.windows.is_open:
            opened.append(program.sampler.controller.share().windows)
        for _ in range(300):
            program.step()
    assert len(opened) > 1
    assert all(second - first > 1 for first, second in pairwise(opened))


def test_a_pause_closes_the_window(program):
    while not program.windows.is_open:
        program.step()
    program.sampler.pause()
    assert not program.windows.is_open
    program.clock.now += 1000  # a long evaluation
    program.step()
    assert program.sampler.controller.share().cost < 1


def test_windows_neither_open_nor_close_where_it_is_unsafe(program):
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


def test_an_error_ends_the_checking_but_not_the_program(program):
    program.windows.fails = True
    assert not any(program.step() for _ in range(1000))
    assert [str(error) for error in program.windows.errors] == ["broken"]


def test_the_end_closes_the_window_and_no_other_opens(program):
    while not program.windows.is_open:
        program.step()
    program.sampler.end()
    assert not program.windows.is_open
    assert not any(program.step() for _ in range(5000))


# -- seconds, for programs without units


@pytest.fixture
def service(program):
    """Return a program without units; `wait` runs it for some seconds and calls the sampler when due."""
    clock, busy, windows = program.clock, Clock(), program.windows
    sampler = Sampler(Controller(0.05), windows, clock, lambda: program.safe.here, None, busy)
    checked = []

    def wait(seconds, busy_share=1.0):
        while seconds > 0:
            pause = sampler.tick()
            if pause is None:
                return False
            passed = min(pause, seconds)
            if windows.is_open:
                checked.append(passed * busy_share)
            clock.now += passed
            busy.now += passed * busy_share
            seconds -= passed
        return True

    return SimpleNamespace(
        clock=clock, busy=busy, windows=windows, sampler=sampler, wait=wait, checked=checked, safe=program.safe
    )


def test_a_program_without_steps_is_checked_in_seconds_within_the_budget(service):
    assert service.wait(20_000)
    assert 0.03 * 20_000 < sum(service.checked) <= 0.05 * 20_000 + 2
    share = service.sampler.controller.share()
    assert share.windows > 100
    assert share.cost == pytest.approx(sum(service.checked), abs=3)  # all of it, because its cost is unknown
    assert service.sampler.unit == SECOND


def test_idle_time_earns_nothing_and_costs_nothing(service):
    service.wait(10)
    before = sum(service.checked)
    service.wait(100_000, busy_share=0.0)
    assert sum(service.checked) == before
    service.wait(300)
    assert sum(service.checked) > before


def test_a_program_that_made_a_step_is_not_checked_in_seconds(program):
    program.step()
    assert program.sampler.tick() is None
    assert program.sampler.unit == "step"


def test_a_program_with_an_optimizer_is_expected_to_make_steps(program):
    program.sampler.expect_steps()
    assert program.sampler.tick() is None


def test_ranks_open_no_timed_windows(program):
    agreement = SimpleNamespace(is_alone=lambda: False)
    sampler = Sampler(Controller(0.05), program.windows, program.clock, lambda: True, agreement)
    assert sampler.tick() is None


def first_window(service):
    while not service.windows.is_open:
        service.wait(0.5)


def test_timed_windows_open_and_close_only_where_it_is_safe(service):
    service.safe.here = False
    service.wait(100)
    assert not service.windows.is_open
    service.safe.here = True
    first_window(service)
    service.safe.here = False
    service.wait(100)
    assert service.windows.is_open
    service.safe.here = True
    service.wait(1)
    assert not service.windows.is_open


UNITS = {
    "step": lambda sampler: sampler.ended(),
    "request": lambda sampler: (sampler.request_starts(), sampler.request_ended()),
}


@pytest.mark.parametrize("unit", UNITS)
def test_the_first_real_unit_ends_the_timed_windows(service, unit):
    first_window(service)
    service.wait(1)
    UNITS[unit](service.sampler)
    assert service.windows.is_open  # nothing is closed at an arbitrary point of the program
    assert not service.wait(1)
    assert not service.windows.is_open
    assert service.sampler.unit == unit
    [(earlier, share)] = service.sampler.earlier
    assert (earlier, share.windows) == (SECOND, 1)
    for _ in range(5):
        UNITS[unit](service.sampler)
        service.clock.now += 0.01
    assert service.sampler.controller.share().units == 5


def test_units_after_timed_windows_pay_for_their_cost(service):
    first_window(service)
    service.wait(3)
    service.sampler.ended()
    service.wait(1)
    opened = []
    for _ in range(3000):
        service.clock.now += 0.01
        service.sampler.ended()
        opened.append(service.windows.is_open)
    share = service.sampler.controller.share()
    assert share.windows == 1  # the first window is on credit, and earning 2 seconds at 5 % takes 40
    assert share.cost < 1


def test_a_service_that_ends_inside_a_window_closes_it(service):
    first_window(service)
    service.sampler.end()
    assert not service.windows.is_open
    assert service.sampler.tick() is None


# -- shapes


def steps_with_known_shapes(program, n=2000):
    for _ in range(n):
        program.sampler.input_arrived("usual")
        program.step()
    while program.windows.is_open:
        program.sampler.input_arrived("usual")
        program.step()


def steps_until_open(program, shapes, most=5000):
    """Return the number of steps with these shapes before a window is open when they begin."""
    for number in range(most):
        program.sampler.input_arrived(shapes)
        if program.windows.is_open:
            return number
        program.step()
    raise AssertionError("no window was opened")


def test_a_new_shape_takes_precedence(program):
    steps_with_known_shapes(program)
    steps_until_open(program, "usual")
    while program.windows.is_open:
        program.step()
    new = steps_until_open(program, "new")
    while program.windows.is_open:
        program.step()
    assert new < steps_until_open(program, "new")  # by now it is known


def test_a_rare_shape_is_checked_at_its_first_step_if_the_budget_allows(program):
    steps_with_known_shapes(program)
    while program.windows.is_open or program.sampler.controller.units_left():
        program.step()
    program.sampler.input_arrived("rare")
    assert program.windows.is_open


def test_an_unaffordable_shape_stays_new(program):
    steps_with_known_shapes(program, 50)
    program.sampler.input_arrived("rare")
    assert not program.windows.is_open
    while program.sampler.controller.units_left():
        program.step()
    program.sampler.input_arrived("rare")
    assert program.windows.is_open


def test_shapes_are_ignored_if_each_step_has_another(program):
    for number in range(2000):
        program.sampler.input_arrived(number)
        program.step()
    before = program.sampler.controller.share().windows
    while program.windows.is_open or program.sampler.controller.units_left():
        program.step()
    program.sampler.input_arrived("another one")
    assert not program.windows.is_open
    assert before > 2


def test_new_shapes_cost_no_more_than_the_budget(program):
    for number in range(20_000):
        program.sampler.input_arrived(number // 400)
        program.step()
    assert program.clock.now <= 20_000 * 0.01 * 1.05


def test_a_new_shape_opens_no_window_in_one_of_several_ranks(program):
    agreement = SimpleNamespace(is_alone=lambda: False, decide=lambda controller, **_: controller.decide())
    sampler = Sampler(Controller(0.05), program.windows, program.clock, lambda: True, agreement)
    for number in range(200):
        was_open = program.windows.is_open
        sampler.input_arrived(number // 5)
        assert program.windows.is_open == was_open
        program.clock.now += 0.01
        sampler.ended()
    assert sampler.controller.share().windows > 1


def test_a_new_shape_opens_no_window_where_it_is_unsafe(program):
    steps_with_known_shapes(program)
    while program.sampler.controller.units_left():
        program.step()
    program.safe.here = False
    program.sampler.input_arrived("new")
    assert not program.windows.is_open
