"""A schedule: the choices of one simulated run as data, in a short string with which the run can be replayed exactly.

The parts of `s1-5f3a21-2.5_1.9-07ce` are: format version 1, the program's checksum, the launches that are held back,
and a checksum of the rest. `2.5_1.9` holds back stream 2 from its launch 5 on, until launch 9 of stream 1 has run.
`2.5` holds it back until something has to wait for it. `2.5@1` does so only in rank 1 of a job. `r17` holds back
streams at random, with seed 17.

Source:
    Musuvathi & Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010:
    random priorities, which change at a few points; Sen, "Race directed random testing", PLDI 2008: one access waits
    for the other.
"""

import random
import re
import zlib
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from syncheck.errors import ConfigError

_FORMAT = "s1"
_HOLD = re.compile(r"(\d+\.\d+)(?:_(\d+\.\d+))?(?:@(\d+))?")
_MEAN_LAUNCHES_PER_CHANGE = 6
"""Average number of launches after which the priorities are drawn again."""


class LaunchId(NamedTuple):
    """A launch. `number` counts the launches of its stream from 1. The host, stream 0, has no launches."""

    stream: int
    number: int

    @classmethod
    def of(cls, text: str) -> "LaunchId":
        """Parse the result of `str`."""
        stream, _, number = text.partition(".")
        return cls(int(stream), int(number))

    def __str__(self) -> str:
        return f"{self.stream}.{self.number}"


class Pair(NamedTuple):
    """The two accesses of a race, in program order.

    Attributes:
        earlier: a launch.
        later: a launch, or the host at stream 0.
    """

    earlier: LaunchId
    later: LaunchId


class Hold(NamedTuple):
    """A stream that is held back from a launch on.

    Attributes:
        launch: the first launch that is held back.
        until: the launch that has to run first; None to hold back until something waits for it.
        rank: the rank of the job in which it is held back; None for every process.
    """

    launch: LaunchId
    until: LaunchId | None = None
    rank: int | None = None

    def __str__(self) -> str:
        until = f"_{self.until}" if self.until is not None else ""
        return f"{self.launch}{until}{f'@{self.rank}' if self.rank is not None else ''}"


class Policy(Protocol):
    """Decides which streams run. It is consulted again after each step of the host."""

    def may_run(self, launch: LaunchId) -> bool:
        """Return whether a stream may run the entry at the head of its queue, which is, or precedes, this launch."""
        ...

    def launch_ran(self, launch: LaunchId) -> None:
        """Record that a launch has run."""
        ...

    def host_submitted(self) -> None:
        """Record that the host has submitted something."""
        ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """The choices of one run.

    Attributes:
        program: the program's checksum.
        holds: the streams that are held back.
        seed: the seed of random choices; None for none.
    """

    program: int
    holds: tuple[Hold, ...] = ()
    seed: int | None = None

    def __str__(self) -> str:
        body = f"r{self.seed}" if self.seed is not None else "+".join(map(str, self.holds)) or "0"
        return with_checksum(f"{_FORMAT}-{self.program:06x}-{body}")

    @property
    def description(self) -> str:
        """Text for a report in addition to the schedule itself: empty."""
        return ""

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Return the schedule encoded by a text.

        Raises:
            ConfigError: the text is damaged or of another version.
        """
        form, _, _ = text.partition("-")
        if form != _FORMAT and re.fullmatch(r"s\d+", form):
            raise ConfigError(
                f"the schedule {text!r} was made by another version of syncheck", "make a new one with --witness"
            )
        program, body = split_parts(text)
        try:
            return cls(program, *_parse_body(body))
        except ValueError:
            raise damaged_error(text) from None

    def policy(self, rank: int = 0) -> Policy:
        """Return the policy of this schedule for one run of one rank."""
        if self.seed is not None:
            return RandomPriorities(self.seed, rank)
        return Holds(tuple(hold for hold in self.holds if hold.rank in {None, rank}))


def with_checksum(text: str) -> str:
    """Return a text with its checksum at the end."""
    return f"{text}-{_checksum(text):04x}"


def split_parts(text: str) -> tuple[int, str]:
    """Return the program's checksum and the encoded choices of a text from `with_checksum`.

    Raises:
        ConfigError: the text is damaged.
    """
    rest, _, check = text.rpartition("-")
    parts = rest.split("-")
    if len(parts) != 3 or check != f"{_checksum(rest):04x}":
        raise damaged_error(text)
    try:
        return int(parts[1], 16), parts[2]
    except ValueError:
        raise damaged_error(text) from None


def damaged_error(text: str) -> ConfigError:
    """Return the error for a text that encodes no schedule."""
    return ConfigError(
        f"invalid value for --schedule: {text!r} (not a schedule, or not all of it)", "copy all of it from the report"
    )


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace")) & 0xFFFF


def _parse_body(body: str) -> tuple[tuple[Hold, ...], int | None]:
    if body.startswith("r"):
        return (), int(body[1:])
    return tuple(_parse_hold(part) for part in body.split("+")) if body != "0" else (), None


def _parse_hold(text: str) -> Hold:
    match = _HOLD.fullmatch(text)
    if match is None:
        raise ValueError(text)
    launch, until, rank = match.groups()
    return Hold(LaunchId.of(launch), LaunchId.of(until) if until else None, int(rank) if rank else None)


class Holds:
    """Runs everything immediately, in program order, except for what is held back."""

    def __init__(self, holds: tuple[Hold, ...]) -> None:
        self._holds = list(holds)

    def may_run(self, launch: LaunchId) -> bool:
        """See `Policy`."""
        return all(hold.launch.stream != launch.stream or launch.number < hold.launch.number for hold in self._holds)

    def launch_ran(self, launch: LaunchId) -> None:
        """See `Policy`."""
        self._holds = [hold for hold in self._holds if hold.until != launch]

    def host_submitted(self) -> None:
        """See `Policy`."""


class RandomPriorities:
    """Gives each stream and the host a random priority. A stream below the host runs only when waited for."""

    def __init__(self, seed: int, rank: int = 0) -> None:
        self._random = random.Random(f"{seed}@{rank}" if rank else seed)  # noqa: S311  for replay, not for secrets
        self._host = self._random.random()
        self._streams: dict[int, float] = {}

    def may_run(self, launch: LaunchId) -> bool:
        """See `Policy`."""
        priority = self._streams.get(launch.stream)
        if priority is None:
            priority = self._streams[launch.stream] = self._random.random()
        return priority >= self._host

    def launch_ran(self, launch: LaunchId) -> None:
        """See `Policy`."""

    def host_submitted(self) -> None:
        """See `Policy`."""
        if not self._random.randrange(_MEAN_LAUNCHES_PER_CHANGE):
            self._streams.clear()
            self._host = self._random.random()
