"""How much of a program a budget lets be checked, and when: pure logic, with times that it is given.

A unit is what the program does again and again: a training step, a request, a second. Units come in windows: those of a
window are checked one after the other. What checking costs is measured: how much longer the units of a window took than
those outside, and how long it took to begin and to end the window.
"""

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

FIRST_UNIT = 2
"""Units done when the first window begins: the first of all sets the program up."""
SHORTEST, LONGEST = 2, 16
"""Units of a window. A race between a step and the next one needs two."""
_GAP = 4
"""At least this many units are left unchecked after a window: the time of a unit may change."""
_FARTHEST = 1000
"""Units after which to decide anew at the latest: they may have become faster."""
_REMEMBERED = 65
_NEWEST = 0.5
"""Weight of the latest window in what the next one is expected to cost."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What comes next.

    Attributes:
        length: units to check from here on; 0: none.
        next_at: the number of units done when to decide again.
        early_at: the number of units done from which on something new is worth a decision at once.
    """

    length: int
    next_at: int
    early_at: int


@dataclass(frozen=True, slots=True)
class Share:
    """What was checked, and what that cost.

    Attributes:
        windows: how many there were.
        units: units done.
        checked: those that were checked.
        seconds: time of all units.
        checked_seconds: time of those that were checked.
        cost: what checking cost, in seconds.
    """

    windows: int = 0
    units: int = 0
    checked: int = 0
    seconds: float = 0.0
    checked_seconds: float = 0.0
    cost: float = 0.0


@dataclass(slots=True)
class _Window:
    """A window: its units, their time, and the time that its beginning and its end took."""

    units: int = 0
    seconds: float = 0.0
    switching: float = 0.0


class Controller:
    """Decides when to check, such that checking costs at most a share of the time that the program takes without it.

    Attributes:
        number: units done.
        is_all_cost: see there.

    Args:
        budget: the share: 0.05 is 5 %.
        is_all_cost: all the time of a window counts as its cost: where nothing says what it would take unchecked, and
            where that is no less.
        before: what units of another kind have earned and spent: seconds that they would have taken, and their cost.
    """

    def __init__(self, budget: float, *, is_all_cost: bool = False, before: tuple[float, float] = (0.0, 0.0)) -> None:
        self.number = 0
        self._budget = budget
        self.is_all_cost = is_all_cost
        self._decision = Decision(0, FIRST_UNIT, FIRST_UNIT)
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)  # seconds of the latest units outside of windows
        self._bare, self._cost = before  # seconds that the program would have taken so far; cost of settled windows
        self._cost_before = self._cost
        self._window: _Window | None = None  # the latest, as long as it is not settled
        self._expected: tuple[float, float] | None = None  # of a window: seconds to begin and end it; extra for a unit
        self._is_open = False
        self._n_windows = self._n_checked = 0
        self._seconds = self._checked_seconds = 0.0

    def follow(self, *, is_all_cost: bool) -> "Controller":
        """Return a controller for other units of the same program, with what this one has earned and spent."""
        self._settle()
        return Controller(self._budget, is_all_cost=is_all_cost, before=(self._bare, self._cost))

    # -- what happened

    def unchecked(self, seconds: float) -> None:
        """A unit has ended that was not checked."""
        self.number += 1
        self._recent.append(seconds)
        self.passed(seconds)

    def passed(self, seconds: float) -> None:
        """Time has passed outside of windows that is no whole unit."""
        self._bare += seconds
        self._seconds += seconds

    def begins(self) -> None:
        """The first unit has ended, which says nothing of the others."""
        self.number += 1

    def opened(self, seconds: float) -> None:
        """A window has begun, which took some time."""
        self._n_windows += 1
        self._is_open = True
        self._window = _Window(switching=seconds)

    def checked(self, seconds: float) -> None:
        """A unit has ended that was checked."""
        self.number += 1
        self._n_checked += 1
        self.passed_checked(seconds, 1)

    def passed_checked(self, seconds: float, units: int = 0) -> None:
        """Time has passed in a window."""
        self._checked_seconds += seconds
        self._seconds += seconds
        if self._window is not None:
            self._window.units += units
            self._window.seconds += seconds

    def closed(self, seconds: float) -> None:
        """A window has ended, which took some time."""
        self._is_open = False
        if self._window is not None:
            self._window.switching += seconds
        number = self.number + max(_GAP, self._decision.length)
        self._decision = Decision(0, number, number)

    # -- what to do

    def is_due(self, *, is_new: bool) -> bool:
        """Return whether to decide now.

        Args:
            is_new: what comes was never checked before.
        """
        at = self._decision.next_at
        return self.number >= (min(at, self._decision.early_at) if is_new else at)

    def decide(self, *, is_new: bool = False) -> Decision:
        """Return what comes next; not for a time inside a window.

        Args:
            is_new: what comes was never checked before.
        """
        self._settle()
        length = self._length()
        if not self._n_windows:
            return self.adopt(Decision(length, self.number + length, self.number + length))
        need = self._need(length)
        missing = need - self._balance()
        wanted = missing if is_new else missing + need  # what is not new leaves enough for something new
        if wanted <= 0:
            return self.adopt(Decision(length, self.number + length, self.number + length))
        return self.adopt(Decision(0, self._when(missing + need), self._when(missing)))

    def wait(self, units: int) -> Decision:
        """Return the decision to decide later."""
        return self.adopt(Decision(0, self.number + units, self.number + units))

    def adopt(self, decision: Decision) -> Decision:
        """Do as was decided, here or by another rank; return the decision."""
        self._decision = decision
        return decision

    def units_left(self) -> int:
        """Return how many units there are until it is time to decide, where all that comes is new."""
        return max(0, min(self._decision.next_at, self._decision.early_at) - self.number)

    def share(self) -> Share:
        """Return what was checked so far, and what that cost."""
        self._settle()
        return Share(
            self._n_windows,
            self.number,
            self._n_checked,
            self._seconds,
            self._checked_seconds,
            max(0.0, self._cost - self._cost_before),
        )

    # -- what it costs

    def _settle(self) -> None:
        """Count what the latest window cost; units before and after it say what its own would have taken."""
        window = self._window
        if window is None or self._is_open:
            return
        self._window = None
        usual = 0.0 if self.is_all_cost or not self._recent else median(self._recent)
        extra = max(0.0, window.seconds - window.units * usual)
        self._cost += window.switching + extra
        self._bare += min(window.seconds, window.units * usual)
        found = (window.switching, extra / max(1, window.units))
        known = self._expected or found
        self._expected = (
            known[0] + _NEWEST * (found[0] - known[0]),
            known[1] + _NEWEST * (found[1] - known[1]),
        )

    def _length(self) -> int:
        """Return how many units a window has: so many that their own cost is no less than that of its begin and end."""
        switching, extra = self._expected or (0.0, 1.0)
        return min(LONGEST, max(SHORTEST, math.ceil(switching / extra if extra > 0 else LONGEST)))

    def _need(self, length: int) -> float:
        switching, extra = self._expected or (0.0, 0.0)
        return switching + length * extra

    def _balance(self) -> float:
        """Return how many seconds of checking the program has earned and not spent."""
        return self._budget * self._bare - self._cost

    def _when(self, missing: float) -> int:
        """Return how many units are done when so many seconds more are earned."""
        earned = self._budget * median(self._recent) if self._recent else 0.0
        units = math.ceil(missing / earned) if earned > 0 and missing / earned < _FARTHEST else _FARTHEST
        return self.number + max(1, units)
