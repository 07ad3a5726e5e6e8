"""Check a window of a long training job: from the end of one optimizer step to the end of a later one."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from torch.optim.optimizer import register_optimizer_step_post_hook


class Watchable(Protocol):
    """A backend, as far as a window concerns it."""

    def watching(self) -> AbstractContextManager[None]:
        """Watch the program for the time of a block."""
        ...

    def finish(self) -> None:
        """Look at what is left, and listen no more."""
        ...


class Notes(Protocol):
    """Where notes to the user go."""

    def note(self, text: str) -> None:
        """Add a note to the report."""
        ...


class Window:
    """Watches between two steps, counted on the first optimizer that makes one.

    Args:
        steps: number of steps done when the watch begins, and when it ends; None: with the program.
        backend: what watches.
        notes: receives a note if the window never began.
    """

    def __init__(self, steps: tuple[int, int | None], backend: Watchable, notes: Notes) -> None:
        self._first, self._last = steps
        self._backend = backend
        self._notes = notes
        self._done = 0
        self._counted: weakref.ref[Any] | None = None
        self._watch: AbstractContextManager[None] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the steps of a block and watch those of the window."""
        hook = register_optimizer_step_post_hook(self._stepped)
        if self._first == 0:
            self._begin()
        try:
            yield
        finally:
            hook.remove()
            self._end()
            if self._done < self._first:
                self._notes.note(f"nothing was checked: only {self._done} of {self._first} steps were made")

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if self._counted is None:
            self._counted = weakref.ref(optimizer)
        if self._counted() is not optimizer:
            return
        self._done += 1
        if self._done == self._last:
            self._backend.finish()
            self._end()
        elif self._done == self._first:
            self._begin()

    def _begin(self) -> None:
        self._watch = self._backend.watching()
        self._watch.__enter__()

    def _end(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.__exit__(None, None, None)


class LateReport:
    """Stands for a backend that must watch from the first line on: what it sees outside of a window is left out.

    Attributes:
        is_open: the window has begun, and what is found counts.

    Args:
        begin: called when the window begins: what was found so far does not count.
        end: called when it ends: what is found later does not count.
    """

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self.is_open = False
        self._begin = begin
        self._end = end

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Let findings count from now on."""
        self._begin()
        self.is_open = True
        yield

    def finish(self) -> None:
        """Let findings count no more."""
        self._end()
        self.is_open = False
