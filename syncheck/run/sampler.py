"""Opening and closing of the windows of a budget, between the program's units."""

import math
import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Protocol

from syncheck.run.budget import Controller, Decision, Share

_MAX_KEYS = 4096
"""Maximum number of kinds of units to remember; further kinds count as known."""
_MAX_SHAPES = 64
"""Maximum number of shapes to distinguish; a program with more has different shapes in almost every step."""
SECOND = "second of processor time"
_OFTEN = 0.25
"""Seconds between checks whether a window of seconds must end; several threads use up processor time in parallel."""


class Windows(Protocol):
    """Receiver of the calls that open and close windows."""

    def open(self) -> None:
        """Start checking."""
        ...

    def close(self) -> None:
        """Stop checking."""
        ...

    def failed(self, error: Exception) -> None:
        """Handle an exception of `open` or `close`, after which neither is called again."""
        ...


class Agreement(Protocol):
    """Makes the ranks of a job decide alike."""

    def is_alone(self) -> bool:
        """Return whether this process decides alone."""
        ...

    def decide(self, controller: Controller, *, is_new: bool) -> Decision:
        """Return the common decision of all ranks at this number of units."""
        ...


class Alone:
    """Agreement of a single process."""

    def is_alone(self) -> bool:
        """See `Agreement`."""
        return True

    def decide(self, controller: Controller, *, is_new: bool) -> Decision:
        """See `Agreement`."""
        return controller.decide(is_new=is_new)


class Sampler:
    """Counts the units of one thread, and opens and closes windows between them.

    If a program neither makes steps nor marks requests, `tick` switches to seconds as units. These are seconds of
    processor time, so that waiting for requests neither earns nor costs anything.

    Attributes:
        is_open: whether a window is open.
        unit: name of the unit: a training step, a request once the program marks them, or SECOND.
        earlier: units that were counted before the current ones, with their checked shares.

    Args:
        controller: makes the decisions.
        windows: opens and closes the windows.
        clock: returns seconds.
        is_safe: returns whether a window can be opened or closed at this point.
        agreement: agreement of the ranks of a job.
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
        self._other = ""  # while seconds are counted: the unit found for the program since
        self._makes_steps = False
        self._controller = controller
        self._windows = windows
        self._clock = self._own_clock = clock
        self._is_safe = is_safe
        self._agreement: Agreement = agreement or Alone()
        self._pid = os.getpid()
        self._thread = 0  # the thread whose units are counted; 0 before the first unit
        self._last: float | None = None  # when the latest unit ended
        self._seen: set[Hashable] = set()
        self._shapes: dict[Hashable, bool] = {}  # shapes of a step's input -> whether it was in a window
        self._is_over = False
        self._was_early = False  # the latest window was opened by `begin_phase`

    @property
    def controller(self) -> Controller:
        """The current controller."""
        return self._controller

    def ended(self, key: Hashable = None) -> None:
        """Note the end of a training step in the calling thread.

        Args:
            key: the kind of step; kinds that have not been checked yet take precedence.
        """
        if self.unit == "step":
            self._ended(key)
        elif self.unit == SECOND:
            self._other = self._other or "step"

    def request_ended(self, key: Hashable = None) -> None:
        """Note the end of a request in the calling thread; see `ended`."""
        if self.unit == "request":
            self._ended(key)

    def _ended(self, key: Hashable) -> None:
        if not self._is_mine():
            return
        now = self._clock()
        self._count(now)
        if self.is_open and len(self._seen) < _MAX_KEYS:
            self._seen.add(key)
        if self._controller.is_due(is_new=self._is_new(key)) and self._is_safe():
            self._switch(is_new=self._is_new(key))
            now = self._clock()
        self._last = now

    def request_starts(self, key: Hashable = None) -> None:
        """Note the start of a request in the calling thread; from the first one on, requests replace steps as units.

        Args:
            key: the kind of request, as for `ended`.
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
            self._controller.first_unit_ended()
        elif self.is_open:
            self._controller.checked(now - self._last)
        else:
            self._controller.unchecked(now - self._last)

    def pause(self) -> None:
        """Close the window before a pause that is not a unit and may be long."""
        if self.unit == "step" and self.is_open and self._is_mine() and self._is_safe():
            self._pass()
            self._close()
            self._last = self._clock()

    def begin_phase(self) -> None:
        """Open a window, if affordable, at the start of a phase whose first units matter most, such as an epoch."""
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
        """Note that the program will make training steps, so that seconds are not needed as units."""
        self._makes_steps = True
        if self.unit == SECOND:
            self._other = self._other or "step"

    # -- seconds

    def tick(self) -> float | None:
        """Count elapsed time if there are no other units, and open or close a window; called in the main thread.

        Returns:
            Seconds until the next call; None for never.
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
        """Switch from seconds to the program's own units; return the same as `tick`."""
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

    def input_arrived(self, shapes: Hashable) -> None:
        """Note the input of the next step: open a window, if affordable, if its shapes have not been checked yet.

        If there are too many different shapes, they are ignored.
        """
        if self.unit != "step" or not self._is_mine() or len(self._shapes) > _MAX_SHAPES:
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
        """Close the window at the end of the program."""
        self._is_over = True
        if self.is_open and os.getpid() == self._pid:
            self._pass()
            self._close()

    # -- helpers

    def _is_mine(self) -> bool:
        """Return whether this is the thread whose units are counted: the first one with a unit."""
        if not self._thread:
            self._thread = threading.get_ident()
        return self._thread == threading.get_ident() and not self._is_over and self._pid == os.getpid()

    def _is_new(self, key: Hashable) -> bool:
        return key not in self._seen and len(self._seen) < _MAX_KEYS and self._agreement.is_alone()

    def _pass(self) -> None:
        """Count the time since the latest unit, which is not a unit itself."""
        passed = self._clock() - self._last if self._last is not None else 0.0
        if self.is_open:
            self._controller.checked_time_passed(passed)
        else:
            self._controller.time_passed(passed)

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
        """Call a function whose exceptions must not reach the program; return whether it succeeded."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  must not reach the user's program
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        self._is_over = True
        self._windows.failed(error)
