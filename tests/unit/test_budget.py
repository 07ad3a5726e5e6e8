"""The budget controller: when windows open and what they cost, for units with given times."""

from dataclasses import dataclass
from itertools import pairwise

import pytest

from syncheck.run.budget import FIRST_UNIT, Controller


@dataclass
class Program:
    """Units with given times, as a sampler would run them.

    Attributes:
        bare: seconds of an unchecked unit.
        factor: slowdown of a checked unit.
        switching: seconds to open or close a window.
        news: numbers of the units at whose end something new begins.
    """

    controller: Controller
    bare: float = 0.01
    factor: float = 3.0
    switching: float = 0.01
    news: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()

    def run(self, units: int) -> list[tuple[int, int]]:
        """Return for each window the numbers of units done when it opened and when it closed."""
        found, opened = [], None
        for number in range(1, units + 1):
            seconds = self.bare * (100 if number in self.slow else 1)
            if number == 1:
                self.controller.first_unit_ended()
            elif opened is None:
                self.controller.unchecked(seconds)
            else:
                self.controller.checked(seconds * self.factor)
            is_new = number in self.news
            if not self.controller.is_due(is_new=is_new):
                continue
            if opened is not None:
                self.controller.closed(self.switching)
                found.append((opened, number))
                opened = None
            elif self.controller.decide(is_new=is_new).length:
                self.controller.opened(self.switching)
                opened = number
        return found

    def true_cost(self, windows: list[tuple[int, int]]) -> float:
        extra = sum(last - first for first, last in windows) * self.bare * (self.factor - 1)
        return extra + 2 * self.switching * len(windows)


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.2])
@pytest.mark.parametrize(("factor", "switching"), [(3.0, 0.01), (1.3, 0.05), (40.0, 0.001)])
def test_checking_uses_the_budget_without_exceeding_it(budget, factor, switching):
    program = Program(Controller(budget), factor=factor, switching=switching)
    units = 100_000
    windows = program.run(units)
    cost = program.true_cost(windows) / (units * program.bare)
    assert 0.85 * budget < cost <= budget
    assert program.controller.share().cost == pytest.approx(program.true_cost(windows), rel=0.05)


def test_the_first_window_opens_immediately():
    assert Program(Controller(0.01)).run(10)[0][0] == FIRST_UNIT


def test_windows_have_several_units_with_several_units_in_between():
    windows = Program(Controller(1.0), factor=1.01, switching=0.0).run(1000)
    assert all(last - first >= 2 for first, last in windows)
    assert all(second[0] - first[1] >= 4 for first, second in pairwise(windows))


def test_windows_that_are_slow_to_open_are_longer():
    short = Program(Controller(0.05), switching=0.0001).run(10_000)[-1]
    long = Program(Controller(0.05), switching=0.1).run(10_000)[-1]
    assert short[1] - short[0] < long[1] - long[0]


def test_something_new_is_checked_early():
    usual = Program(Controller(0.05)).run(20_000)
    between = next((b[0] + a[1]) // 2 for a, b in pairwise(usual[5:]) if b[0] - a[1] > 20)
    windows = Program(Controller(0.05), news=frozenset({between})).run(20_000)
    assert between not in {first for first, _ in usual}
    assert between in {first for first, _ in windows}
    assert Program(Controller(0.05)).true_cost(windows) <= 0.05 * 20_000 * 0.01


def test_occasional_slow_units_do_not_hide_the_cost_of_checking():
    slow = frozenset(range(50, 100_000, 500))
    program = Program(Controller(0.05), slow=slow)
    windows = program.run(100_000)
    assert program.true_cost(windows) <= 0.05 * (100_000 + 99 * len(slow)) * 0.01


def test_the_budget_holds_when_units_become_faster():
    program = Program(Controller(0.05), bare=1.0, switching=0.5)
    program.run(100)
    program.bare, program.switching = 0.001, 0.5
    before = program.controller.share().cost
    windows = program.run(300_000)
    assert before + program.true_cost(windows) <= 0.05 * (100 + 300)


def test_all_time_of_a_window_may_count_as_cost():
    program = Program(Controller(0.05, is_all_cost=True), factor=1.0, switching=0.0)
    windows = program.run(10_000)
    share = program.controller.share()
    assert share.cost == pytest.approx(share.checked_seconds)
    assert 0.04 < sum(last - first for first, last in windows) / 10_000 <= 0.05


def test_the_share_reports_what_was_checked():
    program = Program(Controller(0.05))
    windows = program.run(1000)
    share = program.controller.share()
    assert (share.windows, share.units) == (len(windows), 1000)
    assert share.checked == sum(last - first for first, last in windows)
    assert share.checked_seconds == pytest.approx(share.checked * 0.03)
    assert share.seconds == pytest.approx((999 - share.checked) * 0.01 + share.checked_seconds)
