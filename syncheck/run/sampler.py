"""Opens and closes the windows of a budget, where the program's units end."""

import math
import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Protocol

from syncheck.run.budget import Controller, Decision, Share

_MOST_KEYS = 4096
"""Kinds of units that are remembered; what comes after them counts as known."""
_MOST_SHAPES = 64
"""Shapes that are told apart: a program with more has others in nearly each step."""
SECOND = "second of processor time"
_OFTEN = 0.25
"""Seconds after which to look whether a window of seconds has to end: several threads may use them up at once."""


class Windows(Protocol):
    """What is opened and closed."""

    def open(self) -> None:
        """Check from now on."""
        ...

    def close(self) -> None:
        """Check no more."""
        ...

    def failed(self, error: Exception) -> None:
        """Neither will be called again: one of them has raised an error."""
        ...


class Agreement(Protocol):
    """Lets the ranks of a job decide alike."""

    def is_alone(self) -> bool:
        """Return whether this process decides by itself."""
        ...

    def decide(self, controller: Controller, *, is_new: bool) -> Decision:
        """Return what the ranks do next, all of them at this number of units."""
        ...


class Alone:
    """The agreement of a process with itself."""

    def is_alone(self) -> bool:
        """See `Agreement`."""
        return True

    def decide(self, controller: Controller, *, is_new: bool) -> Decision:
        """See `Agreement`."""
        return controller.decide(is_new=is_new)


class Sampler:
    """Counts the units of one thread, and opens and closes windows between them.

    A program that neither makes steps nor marks requests has seconds in their place, once `tick` is called: seconds of
    processor time, so that waiting for requests earns and costs nothing.

    Attributes:
        is_open: a window is open.
        unit: a unit in words: a training step, a request once the program marks those, or SECOND.
        earlier: units that were counted before these, and what was checked of them.

    Args:
        controller: decides.
        windows: what is opened and closed.
        clock: returns seconds.
        is_safe: returns whether a window can be opened and closed here.
        agreement: of the ranks of a job.
        busy_clock: returns seconds of processor time.
    """

    def __init__(
        self,
        controller: Controller,
        windows: Windows,
        clock: Callable[[], float],
        is_safe: Callable[[], bool],
        agreement: Agreement | None = None,
        busy_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self.is_open = False
        self.unit = "step"
        self.earlier: list[tuple[str, Share]] = []
        self._busy_clock = busy_clock
        self._is_all_cost = controller.is_all_cost
        self._other = ""  # while seconds are counted: the unit that the program has turned out to have
        self._makes_steps = False
        self._controller = controller
        self._windows = windows
        self._clock = self._own_clock = clock
        self._is_safe = is_safe
        self._agreement: Agreement = agreement or Alone()
        self._pid = os.getpid()
        self._thread = 0  # whose units are counted; 0 before the first
        self._last: float | None = None  # when the latest unit ended
        self._seen: set[Hashable] = set()
        self._shapes: dict[Hashable, bool] = {}  # of what steps worked on -> it was in a window
        self._is_over = False
        self._was_early = False  # the latest window was opened at the beginning of something

    @property
    def controller(self) -> Controller:
        """What decides."""
        return self._controller

    def ended(self, key: Hashable = None) -> None:
        """A training step has ended in the calling thread.

        Args:
            key: what kind of step it was: windows come first where there was none of its kind yet.
        """
        if self.unit == "step":
            self._ended(key)
        elif self.unit == SECOND:
            self._other = self._other or "step"

    def request_ended(self, key: Hashable = None) -> None:
        """A request has ended in the calling thread; see `ended`."""
        if self.unit == "request":
            self._ended(key)

    def _ended(self, key: Hashable) -> None:
        if not self._is_mine():
            return
        now = self._clock()
        self._count(now)
        if self.is_open and len(self._seen) < _MOST_KEYS:
            self._seen.add(key)
        if self._controller.is_due(is_new=self._is_new(key)) and self._is_safe():
            self._switch(is_new=self._is_new(key))
            now = self._clock()
        self._last = now

    def request_starts(self, key: Hashable = None) -> None:
        """A request starts in the calling thread: from the first one on, requests count, and steps no more.

        Args:
            key: what kind of request it is, as for `ended`.
        """
        if self.unit == SECOND:
            self._other = "request"
            return
        self.unit = "request"
        if not self._is_mine() or self._last is None:
            return
        if not self.is_open and self._controller.is_due(is_new=self._is_new(key)) and self._is_safe():
            self._switch(is_new=self._is_new(key))
        self._last = self._clock()

    def _count(self, now: float) -> None:
        if self._last is None:
            self._controller.begins()
        elif self.is_open:
            self._controller.checked(now - self._last)
        else:
            self._controller.unchecked(now - self._last)

    def pauses(self) -> None:
        """What comes is no unit, and may be long: close the window."""
        if self.unit == "step" and self.is_open and self._is_mine() and self._is_safe():
            self._pass()
            self._close()
            self._last = self._clock()

    def begins(self) -> None:
        """Something begins of which the first units matter most, such as an epoch: open a window if one can be paid."""
        if self.unit != "step" or self.is_open or self._was_early or not self._is_mine():
            return
        if not self._agreement.is_alone():
            return
        if self._controller.is_due(is_new=True) and self._is_safe():
            self._pass()
            self._switch(is_new=True)
            self._was_early = self.is_open
            self._last = self._clock()

    def expect_steps(self) -> None:
        """The program is going to make training steps: there is no need of seconds."""
        self._makes_steps = True
        if self.unit == SECOND:
            self._other = self._other or "step"

    # -- seconds

    def tick(self) -> float | None:
        """Time has passed: count it where there are no units, and open or close a window; in the main thread.

        Returns:
            In how many seconds to call this again; None: never.
        """
        if self._is_over or self._pid != os.getpid():
            return None
        if self.unit != SECOND:
            if self._thread or self._makes_steps or self.unit == "request" or not self._agreement.is_alone():
                return None
            self._count_in(SECOND, self._controller.follow(is_all_cost=True), self._busy_clock)
            self._thread, self._last = threading.get_ident(), self._clock()
        elif self._other or not self._agreement.is_alone():
            return self._leave_seconds()
        self._count_seconds()
        if self._controller.is_due(is_new=True) and self._is_safe():
            self._switch(is_new=True)
        left = max(1, self._controller.units_left())
        return min(left, _OFTEN) if self.is_open else left

    def _count_seconds(self) -> None:
        """Count the whole seconds that have passed since the latest one."""
        assert self._last is not None
        for _ in range(math.floor(self._clock() - self._last)):
            self._count(self._last + 1)
            self._last += 1

    def _leave_seconds(self) -> float | None:
        """The program has units of its own after all: count those; return as `tick` does."""
        if self.is_open:
            if not self._is_safe():
                return _OFTEN
            self._pass()
            self._close()
        self.earlier.append((self.unit, self._controller.share()))
        self._count_in(self._other or "step", self._controller.follow(is_all_cost=self._is_all_cost), self._own_clock)
        self._thread, self._last = 0, None
        return None

    def _count_in(self, unit: str, controller: Controller, clock: Callable[[], float]) -> None:
        self.unit, self._controller, self._clock = unit, controller, clock

    def arrives(self, shapes: Hashable) -> None:
        """What the next step works on has come: open a window if it has shapes that were not checked, and can be paid.

        Where there are many shapes none of them means anything.
        """
        if self.unit != "step" or not self._is_mine() or len(self._shapes) > _MOST_SHAPES:
            return
        is_checked = self._shapes[shapes] = self._shapes.get(shapes, False) or self.is_open
        if is_checked or not self._agreement.is_alone():
            return
        if self._controller.is_due(is_new=True) and self._is_safe():
            self._pass()
            self._switch(is_new=True)
            self._shapes[shapes] = self.is_open
            self._last = self._clock()

    def end(self) -> None:
        """The program has ended."""
        self._is_over = True
        if self.is_open and os.getpid() == self._pid:
            self._pass()
            self._close()

    # -- parts of these

    def _is_mine(self) -> bool:
        """Return whether this is the thread whose units are counted, the first that has one."""
        if not self._thread:
            self._thread = threading.get_ident()
        return self._thread == threading.get_ident() and not self._is_over and self._pid == os.getpid()

    def _is_new(self, key: Hashable) -> bool:
        return key not in self._seen and len(self._seen) < _MOST_KEYS and self._agreement.is_alone()

    def _pass(self) -> None:
        """Count the time since the latest unit, which is no unit."""
        passed = self._clock() - self._last if self._last is not None else 0.0
        if self.is_open:
            self._controller.passed_checked(passed)
        else:
            self._controller.passed(passed)

    def _switch(self, *, is_new: bool) -> None:
        if self.is_open:
            self._close()
            return
        if self._agreement.decide(self._controller, is_new=is_new).length:
            self._was_early = False
            self._open()

    def _open(self) -> None:
        began = self._clock()
        if not self.guarded(self._windows.open):
            return
        self.is_open = True
        self._controller.opened(self._clock() - began)

    def _close(self) -> None:
        began = self._clock()
        self.is_open = False
        self.guarded(self._windows.close)
        self._controller.closed(self._clock() - began)

    def guarded(self, act: Callable[[], None]) -> bool:
        """Do something that the program must not see fail; return whether it worked."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  the border to the user's program
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        self._is_over = True
        self._windows.failed(error)
