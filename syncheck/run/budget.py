"""Decision of when to check a program under a budget: pure logic, whose times are passed in.

A unit is a repeated part of the program: a training step, a request, a second. A window is a run of consecutive units
that are checked. The cost of checking is measured: the additional time of the units in a window compared with those
outside, and the time for opening and closing the window.
"""

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

FIRST_UNIT = 2
"""Number of completed units before the first window; the first unit sets up the program."""
SHORTEST, LONGEST = 2, 16
"""Bounds of a window's length in units. A race between a step and the next one needs two."""
_GAP = 4
"""Minimum number of unchecked units after a window, because the time of a unit may change."""
_FARTHEST = 1000
"""Maximum number of units until the next decision, because units may have become faster."""
_REMEMBERED = 65
_NEWEST = 0.5
"""Weight of the latest window in the expected cost of the next one."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on the next units.

    Attributes:
        length: number of units to check from here on; 0 for none.
        next_at: number of completed units at which to decide again.
        early_at: number of completed units from which a new kind of unit justifies an immediate decision.
    """

    length: int
    next_at: int
    early_at: int


@dataclass(frozen=True, slots=True)
class Share:
    """The checked share of a program and its cost.

    Attributes:
        windows: number of windows.
        units: number of completed units.
        checked: number of checked units.
        seconds: time of all units.
        checked_seconds: time of the checked units.
        cost: cost of checking, in seconds.
    """

    windows: int = 0
    units: int = 0
    checked: int = 0
    seconds: float = 0.0
    checked_seconds: float = 0.0
    cost: float = 0.0


@dataclass(slots=True)
class _Window:
    """A window: its units, their time, and the time for opening and closing it."""

    units: int = 0
    seconds: float = 0.0
    switching: float = 0.0


class Controller:
    """Decides when to check, so that the cost of checking stays within a share of the program's unchecked time.

    Attributes:
        number: number of completed units.
        is_all_cost: see the argument.

    Args:
        budget: the share: 0.05 is 5%.
        is_all_cost: whether all the time of a window counts as cost, because its unchecked time is unknown or would not
            be less.
        before: balance from units of another kind: the seconds that they would have taken unchecked, and their cost.
    """

    def __init__(self, budget: float, *, is_all_cost: bool = False, before: tuple[float, float] = (0.0, 0.0)) -> None:
        self.number = 0
        self._budget = budget
        self.is_all_cost = is_all_cost
        self._decision = Decision(0, FIRST_UNIT, FIRST_UNIT)
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)  # seconds of the latest units outside windows
        self._unchecked_seconds, self._cost = before  # unchecked seconds of the program so far; cost of settled windows
        self._cost_before = self._cost
        self._window: _Window | None = None  # the latest window until it is settled
        self._expected: tuple[float, float] | None = None  # per window: seconds to open and close it; extra per unit
        self._is_open = False
        self._n_windows = self._n_checked = 0
        self._seconds = self._checked_seconds = 0.0

    def follow(self, *, is_all_cost: bool) -> "Controller":
        """Return a controller for other units of the same program that takes over this one's balance."""
        self._settle()
        return Controller(self._budget, is_all_cost=is_all_cost, before=(self._unchecked_seconds, self._cost))

    # -- events

    def unchecked(self, seconds: float) -> None:
        """Note the end of an unchecked unit."""
        self.number += 1
        self._recent.append(seconds)
        self.time_passed(seconds)

    def time_passed(self, seconds: float) -> None:
        """Note time outside windows that is not a whole unit."""
        self._unchecked_seconds += seconds
        self._seconds += seconds

    def first_unit_ended(self) -> None:
        """Note the end of the first unit, whose time is not representative."""
        self.number += 1

    def opened(self, seconds: float) -> None:
        """Note that a window was opened, and the time that this took."""
        self._n_windows += 1
        self._is_open = True
        self._window = _Window(switching=seconds)

    def checked(self, seconds: float) -> None:
        """Note the end of a checked unit."""
        self.number += 1
        self._n_checked += 1
        self.checked_time_passed(seconds, 1)

    def checked_time_passed(self, seconds: float, units: int = 0) -> None:
        """Note time inside a window."""
        self._checked_seconds += seconds
        self._seconds += seconds
        if self._window is not None:
            self._window.units += units
            self._window.seconds += seconds

    def closed(self, seconds: float) -> None:
        """Note that a window was closed, and the time that this took."""
        self._is_open = False
        if self._window is not None:
            self._window.switching += seconds
        number = self.number + max(_GAP, self._decision.length)
        self._decision = Decision(0, number, number)

    # -- decisions

    def is_due(self, *, is_new: bool) -> bool:
        """Return whether to decide now.

        Args:
            is_new: whether the next unit is of a kind that was never checked.
        """
        at = self._decision.next_at
        return self.number >= (min(at, self._decision.early_at) if is_new else at)

    def decide(self, *, is_new: bool = False) -> Decision:
        """Return the next decision; must not be called inside a window.

        Args:
            is_new: whether the next unit is of a kind that was never checked.
        """
        self._settle()
        length = self._length()
        if not self._n_windows:
            return self.adopt(Decision(length, self.number + length, self.number + length))
        need = self._need(length)
        missing = need - self._balance()
        wanted = missing if is_new else missing + need  # known units leave enough for a new kind
        if wanted <= 0:
            return self.adopt(Decision(length, self.number + length, self.number + length))
        return self.adopt(Decision(0, self._when(missing + need), self._when(missing)))

    def wait(self, units: int) -> Decision:
        """Return the decision to decide again after some units."""
        return self.adopt(Decision(0, self.number + units, self.number + units))

    def adopt(self, decision: Decision) -> Decision:
        """Adopt a decision made here or by another rank, and return it."""
        self._decision = decision
        return decision

    def units_left(self) -> int:
        """Return the number of units until the next decision, assuming that all following units are new."""
        return max(0, min(self._decision.next_at, self._decision.early_at) - self.number)

    def share(self) -> Share:
        """Return the checked share so far and its cost."""
        self._settle()
        return Share(
            self._n_windows,
            self.number,
            self._n_checked,
            self._seconds,
            self._checked_seconds,
            max(0.0, self._cost - self._cost_before),
        )

    # -- costs

    def _settle(self) -> None:
        """Account for the cost of the latest window; the units around it give the unchecked time of its own."""
        window = self._window
        if window is None or self._is_open:
            return
        self._window = None
        usual = 0.0 if self.is_all_cost or not self._recent else median(self._recent)
        extra = max(0.0, window.seconds - window.units * usual)
        self._cost += window.switching + extra
        self._unchecked_seconds += min(window.seconds, window.units * usual)
        found = (window.switching, extra / max(1, window.units))
        known = self._expected or found
        self._expected = (
            known[0] + _NEWEST * (found[0] - known[0]),
            known[1] + _NEWEST * (found[1] - known[1]),
        )

    def _length(self) -> int:
        """Return the length of a window in units, so that they cost at least as much as opening and closing it."""
        switching, extra = self._expected or (0.0, 1.0)
        return min(LONGEST, max(SHORTEST, math.ceil(switching / extra if extra > 0 else LONGEST)))

    def _need(self, length: int) -> float:
        switching, extra = self._expected or (0.0, 0.0)
        return switching + length * extra

    def _balance(self) -> float:
        """Return the seconds of checking that the program has earned and not spent."""
        return self._budget * self._unchecked_seconds - self._cost

    def _when(self, missing: float) -> int:
        """Return the number of completed units at which the missing seconds will be earned."""
        earned = self._budget * median(self._recent) if self._recent else 0.0
        units = math.ceil(missing / earned) if earned > 0 and missing / earned < _FARTHEST else _FARTHEST
        return self.number + max(1, units)
