"""Loops whose every iteration waits for a stream: a clock misses at most what one iteration leaves running."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from syncheck.hb.ids import SiteId, StreamId

T = TypeVar("T")


class Loop:
    """One run of a loop.

    Attributes:
        is_active: whether an iteration is running.
        n_before: number of loops that began before.
        n_iterations: number of iterations that have begun.

    Args:
        n_before: see above.
        n_conditions: number of undetermined conditions that the loop depends on.
    """

    def __init__(self, n_before: int, n_conditions: int) -> None:
        self.n_before, self.is_active = n_before, False
        self._n_conditions, self.n_iterations = n_conditions, 0
        self._may_be_cut = False
        self._waited: set[StreamId] = set()  # in this iteration
        self._n_waits: Counter[StreamId] = Counter()

    @property
    def is_first(self) -> bool:
        """Whether the first iteration is running, so that it is unknown what the others do."""
        return self.is_active and self.n_iterations == 1

    def begin_iteration(self) -> None:
        """Begin the next iteration."""
        self.n_iterations += 1
        self.is_active, self._may_be_cut = True, False
        self._waited.clear()

    def cut(self) -> None:
        """Record that the rest of this iteration may be skipped."""
        self._may_be_cut = True

    def wait(self, stream: StreamId, n_conditions: int) -> None:
        """Record a wait of the host for a stream; `n_conditions`: number of undetermined conditions it depends on."""
        if n_conditions == self._n_conditions and not self._may_be_cut and stream not in self._waited:
            self._waited.add(stream)
            self._n_waits[stream] += 1

    def may_skip(self, n_conditions: int) -> bool:
        """Return whether the running iteration is one of several that get here; `n_conditions`: see `wait`."""
        return self.is_active and n_conditions > self._n_conditions

    def waits_for(self, stream: StreamId) -> bool:
        """Return whether each of several iterations waits for a stream. The current one may still do so."""
        return self.n_iterations > 1 and self._n_waits[stream] >= self.n_iterations - self.is_active


class LoopWaits:
    """The loops of a program, what they wait for, and the intervals that miss only what one iteration leaves."""

    def __init__(self) -> None:
        self._active: list[Loop] = []
        self._n_begun = self._n_conditions = 0
        self._around: dict[StreamId, tuple[Loop, ...]] = {}  # the loops around the latest launch
        self._read: dict[SiteId, tuple[int, dict[Loop, int]]] = {}  # see `read_clock`
        self._small: set[tuple[SiteId, SiteId]] = set()
        self._large: set[tuple[SiteId, SiteId]] = set()

    @property
    def remainders(self) -> set[tuple[SiteId, SiteId]]:
        """The first and last clock readings of intervals that miss only what the last iteration of a loop leaves."""
        return self._small - self._large

    @property
    def is_conditional(self) -> bool:
        """Whether code is run that runs only under an undetermined condition."""
        return self._n_conditions > 0

    def begin(self) -> Loop:
        """Begin a loop."""
        self._n_begun += 1
        return Loop(self._n_begun - 1, self._n_conditions)

    @contextmanager
    def iterating(self, loop: Loop) -> Iterator[None]:
        """Run an iteration of a loop in a block. A generator's loop may outlast loops that began later."""
        loop.begin_iteration()
        self._active.append(loop)
        try:
            yield
        finally:
            self._active.remove(loop)
            loop.is_active = False

    @contextmanager
    def conditional(self) -> Iterator[None]:
        """Run a block that is run only under an undetermined condition."""
        self._n_conditions += 1
        try:
            yield
        finally:
            self._n_conditions -= 1

    def conditionally(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield from a generator that runs only under an undetermined condition."""
        with self.conditional():
            yield from steps

    def pass_by(self, branch: list[ast.stmt]) -> None:
        """Record that an undetermined condition skips a branch: `if step % 10: continue` may skip the iteration."""
        if branch and isinstance(branch[-1], ast.Continue | ast.Return):
            for loop in self._active:
                loop.cut()

    def note_launch(self, stream: StreamId) -> None:
        """Record a launch."""
        self._around[stream] = tuple(self._active)

    def note_wait(self, streams: Iterable[StreamId]) -> None:
        """Record that the host waits for some streams."""
        for stream in streams:
            for loop in self._active:
                loop.wait(stream, self._n_conditions)

    def read_clock(self, site: SiteId, busy: Iterable[StreamId]) -> None:
        """Record that a clock is read while some streams are busy.

        An interval may begin before a loop, or in an earlier iteration: `if step % 100 == 0: start = time.time()`.
        """
        busy = list(busy)
        sparse = {loop: loop.n_iterations for loop in self._active if loop.may_skip(self._n_conditions)}
        for start, (n_begun, before) in self._read.items() if busy else ():
            more = {loop for loop in sparse.keys() & before.keys() if sparse[loop] > before[loop]}
            loops = [self._since(n_begun, more, stream) for stream in busy]
            if all(any(loop.waits_for(stream) for loop in some) for stream, some in zip(busy, loops, strict=True)):
                self._small.add((start, site))
            elif not all(any(loop.is_first for loop in some) for some in loops):
                self._large.add((start, site))
        self._read[site] = self._n_begun, sparse

    def _since(self, n_begun: int, more: set[Loop], stream: StreamId) -> list[Loop]:
        """Return the loops around the latest launch on a stream that began after some others, or are among `more`."""
        return [loop for loop in self._around.get(stream, ()) if loop.n_before >= n_begun or loop in more]
