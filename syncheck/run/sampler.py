"""Opens and closes the windows of a budget, where the program's units end."""

import os
import threading
from collections.abc import Callable, Hashable
from typing import Protocol

from syncheck.run.budget import Controller, Decision

_MOST_KEYS = 4096
"""Kinds of units that are remembered; what comes after them counts as known."""


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

    Attributes:
        is_open: a window is open.
        unit: a unit in words: a training step, or a request once the program marks those.

    Args:
        controller: decides.
        windows: what is opened and closed.
        clock: returns seconds.
        is_safe: returns whether a window can be opened and closed here.
        agreement: of the ranks of a job.
    """

    def __init__(
        self,
        controller: Controller,
        windows: Windows,
        clock: Callable[[], float],
        is_safe: Callable[[], bool],
        agreement: Agreement | None = None,
    ) -> None:
        self.is_open = False
        self.unit = "step"
        self._controller = controller
        self._windows = windows
        self._clock = clock
        self._is_safe = is_safe
        self._agreement: Agreement = agreement or Alone()
        self._pid = os.getpid()
        self._thread = 0  # whose units are counted; 0 before the first
        self._last: float | None = None  # when the latest unit ended
        self._seen: set[Hashable] = set()
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
        if not self._guarded(self._windows.open):
            return
        self.is_open = True
        self._controller.opened(self._clock() - began)

    def _close(self) -> None:
        began = self._clock()
        self.is_open = False
        self._guarded(self._windows.close)
        self._controller.closed(self._clock() - began)

    def _guarded(self, act: Callable[[], None]) -> bool:
        """Do something; return whether it worked."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  the border to the user's program
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        self._is_over = True
        self._windows.failed(error)
