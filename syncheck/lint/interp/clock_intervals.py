"""Intervals between clock readings, and the work that belongs to them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from syncheck.hb.ids import ReadingId, SiteId, StreamId

STEP_OF_OPTIMIZER = "the step of an optimizer"
_SHORT = frozenset(
    """add sub mul div neg abs exp log sqrt pow clamp where lt le gt ge eq ne copy _to_copy clone index index_select
    index_put gather cat stack zeros ones full fill zero arange sum mean max min argmax item rand randn
    randint randperm rand_like randn_like zeros_like ones_like full_like empty normal uniform tensor as_tensor
    to float half bfloat16 double int long type contiguous""".split()
)
"""Operators that take a short time, compared with a network."""
_OF_LISTS = "aten::_foreach_"


class Launch(NamedTuple):
    """An operator that may still be running.

    Attributes:
        operator: its name.
        is_quick: whether it takes a negligible time.
        number: the number of launches before it.
    """

    operator: str
    is_quick: bool
    number: int

    @property
    def is_short(self) -> bool:
        """Whether it takes a short time, compared with a network."""
        name = self.operator.removeprefix("aten::").removesuffix("_")
        is_of_optimizer = self.operator == STEP_OF_OPTIMIZER or self.operator.startswith(_OF_LISTS)
        return self.is_quick or is_of_optimizer or name in _SHORT


class Intervals:
    """The intervals between clock readings in which the host waits for some of their work.

    An interval is given by the sites of its first and last reading.
    """

    def __init__(self) -> None:
        self._starts: dict[SiteId, int] = {}  # clock reading -> number of launches before it
        self._awaited: dict[StreamId, int] = {}  # stream -> number of its latest launch that the host waited for
        self._long_awaited: dict[StreamId, int] = {}  # the same for long ones
        self._whole: set[tuple[SiteId, SiteId]] = set()
        self._parts: set[tuple[SiteId, SiteId]] = set()
        self._ends: set[tuple[SiteId, SiteId]] = set()

    @property
    def parts(self) -> set[tuple[SiteId, SiteId]]:
        """Those that miss only work after a wait for other work."""
        return (self._parts | self._ends) - self._whole

    @property
    def ends(self) -> set[tuple[SiteId, SiteId]]:
        """Those that miss only short work after a wait for long work, such as the step of an optimizer."""
        return self._ends - self._parts - self._whole

    def read_clock(self, site: SiteId, busy: Mapping[StreamId, Sequence[Launch]], number: int) -> None:
        """Record that a clock is read.

        Args:
            site: the reading.
            busy: the work that is running on each stream.
            number: the number of launches so far.
        """
        any_awaited = min((self._awaited.get(stream, -1) for stream in busy), default=-1)
        long_awaited = min((self._long_awaited.get(stream, -1) for stream in busy), default=-1)
        is_short = all(launch.is_short for launches in busy.values() for launch in launches)
        for start, n_before in self._starts.items() if busy else ():
            is_end = is_short and long_awaited >= n_before
            kind = self._ends if is_end else self._parts if any_awaited >= n_before else self._whole
            kind.add((start, site))
        self._starts[site] = number

    def wait(self, stream: StreamId, launches: Sequence[Launch]) -> None:
        """Record that the host has waited for work of a stream."""
        for launch in launches:
            self._awaited[stream] = launch.number
            if not launch.is_short:
                self._long_awaited[stream] = launch.number


class _Reading(NamedTuple):
    """A reading of a clock.

    Attributes:
        site: its call site.
        running: the call site of long work that is running; None if there is none.
        number: the number of launches before it.
        is_synchronized: whether the host has just waited, and done nothing else for that.
    """

    site: SiteId
    running: SiteId | None
    number: int
    is_synchronized: bool


class EarlyReadings:
    """Clock readings at which earlier work is running, in programs that wait before the end of the interval.

    Attributes:
        found: the first readings of such intervals -> the launch of the earlier work.
    """

    def __init__(self) -> None:
        self.found: dict[SiteId, SiteId] = {}
        self._readings: dict[ReadingId, _Reading] = {}
        self._running: dict[StreamId, SiteId] = {}
        self._is_synchronized = False

    def launch(self, stream: StreamId, launch: Launch, site: SiteId, *, is_idle: bool) -> None:
        """Record a launch; `is_idle`: the host has waited for all earlier work of the stream."""
        self._is_synchronized = False
        if is_idle:
            self._running.pop(stream, None)
        if site and not launch.is_short:
            self._running[stream] = site

    def synchronize(self) -> None:
        """Record a wait of the host that does nothing else."""
        self._is_synchronized = True

    def read(self, ident: ReadingId, site: SiteId, busy: Iterable[StreamId], number: int) -> None:
        """Record a reading. Earlier work does not count if another interval ends here, which then misses it.

        Args:
            ident: the reading.
            site: its call site.
            busy: the streams with work that is running.
            number: the number of launches so far.
        """
        latest = next(reversed(self._readings.values()), None)
        follows = latest is not None and latest.number == number
        running = None if follows else next((self._running[each] for each in busy if each in self._running), None)
        self._readings[ident] = _Reading(site, running, number, self._is_synchronized)

    def subtract(self, earlier: ReadingId, later: ReadingId) -> None:
        """Record that a program subtracts two readings."""
        if earlier in self._readings and later in self._readings:
            first, last = self._readings[earlier], self._readings[later]
            if first.running is not None and last.is_synchronized and last.number > first.number:
                self.found[first.site] = first.running
