"""How the other order of two accesses is made: by a schedule of simulated GPUs, or by a delay on real ones."""

import math
from collections.abc import Sequence
from typing import Literal, Protocol

from syncheck.witness.compare import Rerun
from syncheck.witness.delay import Delay
from syncheck.witness.record import Record
from syncheck.witness.schedule import Hold, LaunchId, Pair, Schedule

_SHORTEST, _LONGEST = 0.5, 20.0
"""Of a delay, in seconds."""
_OF_EACH = 0.2
"""The longest delay of several, in seconds."""


class Means(Protocol):
    """How the other order is made."""

    @property
    def name(self) -> Literal["schedule", "delay"]:
        """See `Proof`."""
        ...

    def schedules(self, pair: Pair, rank: int | None) -> Sequence[Schedule | Delay]:
        """Return what may bring two accesses into the other order, the most promising first; none: it is hopeless.

        Args:
            pair: the accesses.
            rank: the rank of the job whose launches they are; None where there is but one process.
        """
        ...


class Schedules:
    """Schedules of simulated GPUs.

    Args:
        program: the program's checksum.
    """

    name: Literal["schedule"] = "schedule"

    def __init__(self, program: int) -> None:
        self._program = program

    def schedules(self, pair: Pair, rank: int | None) -> list[Schedule]:
        """Hold the earlier access back until the later one has run, or as long as can be.

        The latter is for a loop, in which only a later iteration has other values.
        """
        holds = [Hold(pair.earlier, later, rank) for later in (pair.later, None) if later is None or later.stream]
        return [Schedule(self._program, (hold,)) for hold in holds]


class Delays:
    """Delays on real GPUs.

    Args:
        program: the program's checksum.
        usual: a run without one.
    """

    name: Literal["delay"] = "delay"

    def __init__(self, program: int, usual: Rerun) -> None:
        self._program = program
        self._usual = usual

    def schedules(self, pair: Pair, rank: int | None) -> list[Delay]:
        """Delay the earlier access beyond the later one; then also each later call at its line, as in a loop."""
        del rank  # each rank has the delay
        name = str(pair.earlier)
        record = next((record for record in self._usual.records if name in record.starts), None)
        if record is None:
            return []
        launch = LaunchId.of(record.starts[name])
        issuer = LaunchId.of(record.issuers[name]) if name in record.issuers else None
        between = record.submitted.get(str(pair.later), record.submitted[name]) - record.submitted[name]
        seconds = min(max(2 * between, _SHORTEST), _LONGEST)
        short = min(seconds, max(2 * between, _OF_EACH))
        return [
            Delay(self._program, launch, _milliseconds(seconds), issuer),
            Delay(self._program, launch, _milliseconds(short), issuer, is_repeated=True),
        ]


def _milliseconds(seconds: float) -> int:
    return math.ceil(round(seconds * 10, 3)) * 100  # in tenths of a second


def refused(schedule: Schedule | Delay, other: Rerun, pair: Pair) -> str:
    """Return why two accesses did not come in the other order in a run by a schedule; "" if they did, or may have."""
    if isinstance(schedule, Delay):
        if other.failure:
            return f"syncheck failed in the run with the delay: {other.failure}"
        if other.records and not any(record.delayed for record in other.records):
            return "the earlier access did not recur in the run with the delay"
        if schedule.is_repeated:  # it is about later accesses, too
            return ""
    reasons = [_kept_order(record, pair) for record in other.records]
    return reasons[0] if reasons and all(reasons) else ""


def _kept_order(record: Record, pair: Pair) -> str:
    if not pair.later.stream:
        return ""
    order = [record.order.index(str(launch)) if str(launch) in record.order else None for launch in pair]
    if order[1] is None:
        return ""  # the program took another way
    if order[0] is not None and order[1] < order[0]:
        return ""
    return record.forced[0] if record.forced else "the host waits for the earlier access first"
