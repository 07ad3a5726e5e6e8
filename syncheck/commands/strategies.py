"""Strategies for reversing the order of two accesses: schedules of simulated GPUs, and delays on real ones."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

from syncheck.witness.compare import Rerun
from syncheck.witness.delay import Delay
from syncheck.witness.record import Record
from syncheck.witness.schedule import Hold, LaunchId, Pair, Schedule

_MIN_SECONDS, _MAX_SECONDS = 0.5, 20.0
"""Bounds of a delay, in seconds."""
_MAX_REPEATED_SECONDS = 0.2
"""Longest delay if it is repeated, in seconds."""


class Strategy(Protocol):
    """A strategy for reversing the order of two accesses."""

    @property
    def name(self) -> Literal["schedule", "delay"]:
        """See `Proof`."""
        ...

    def schedules(self, pair: Pair, rank: int | None) -> Sequence[Schedule | Delay]:
        """Return the schedules that may reverse the order of two accesses, most promising first; empty if none can.

        Args:
            pair: the accesses.
            rank: the rank whose launches they are; None in a single process.
        """
        ...

    def schedule_in_order(self, pair: Pair) -> Schedule | Delay | None:
        """Return a schedule in which the earlier access certainly comes first; None if none exists or is needed."""
        ...


class ScheduleStrategy:
    """Reversal with schedules of simulated GPUs.

    Args:
        program: the program's checksum.
    """

    name: Literal["schedule"] = "schedule"

    def __init__(self, program: int) -> None:
        self._program = program

    def schedules(self, pair: Pair, rank: int | None) -> list[Schedule]:
        """Hold the earlier access until the later one has run, or for as long as possible.

        The latter is for loops in which only a later iteration has different values.
        """
        holds = [Hold(pair.earlier, later, rank) for later in (pair.later, None) if later is None or later.stream]
        return [Schedule(self._program, (hold,)) for hold in holds]

    def schedule_in_order(self, pair: Pair) -> None:
        """Return None: without a hold, a simulated GPU always runs the earlier access first."""
        del pair


class DelayStrategy:
    """Reversal with delays on real GPUs.

    Args:
        program: the program's checksum.
        reference: a run without a delay.
    """

    name: Literal["delay"] = "delay"

    def __init__(self, program: int, reference: Rerun) -> None:
        self._program = program
        self._reference = reference

    def schedules(self, pair: Pair, rank: int | None) -> list[Delay]:
        """Delay the earlier access beyond the later one; as a second choice, also each later call at its line."""
        del rank  # the delay applies to every rank
        record = self._record(pair.earlier)
        if record is None:
            return []
        submitted = record.submitted[str(pair.earlier)]
        between = record.submitted.get(str(pair.later), submitted) - submitted
        seconds = min(max(2 * between, _MIN_SECONDS), _MAX_SECONDS)
        short = min(seconds, max(2 * between, _MAX_REPEATED_SECONDS))
        delay = self._delay(record, pair.earlier, seconds)
        return [delay, replace(delay, milliseconds=_milliseconds(short), is_repeated=True)]

    def schedule_in_order(self, pair: Pair) -> Delay | None:
        """Delay the later access, so that the earlier one is complete by then; None if it is an access of the host."""
        record = self._record(pair.later)
        return self._delay(record, pair.later, _MIN_SECONDS) if record is not None else None

    def _record(self, launch: LaunchId) -> Record | None:
        """Return what the process that made a launch recorded; None if none did."""
        return next((record for record in self._reference.records if str(launch) in record.starts), None)

    def _delay(self, record: Record, launch: LaunchId, seconds: float) -> Delay:
        name = str(launch)
        issuer = LaunchId.of(record.issuers[name]) if name in record.issuers else None
        return Delay(self._program, LaunchId.of(record.starts[name]), _milliseconds(seconds), issuer)


def _milliseconds(seconds: float) -> int:
    return math.ceil(round(seconds * 10, 3)) * 100  # rounded up to tenths of a second


def reason_not_reversed(schedule: Schedule | Delay, other: Rerun, pair: Pair) -> str:
    """Return why a run did not reverse the order of two accesses; "" if it did, or may have."""
    if isinstance(schedule, Delay):
        if other.failure:
            return f"syncheck failed in the run with the delay: {other.failure}"
        if other.records and not any(record.delayed for record in other.records):
            return "the earlier access did not recur in the run with the delay"
        if schedule.is_repeated:  # it concerns later accesses too
            return ""
    reasons = [_reason_order_kept(record, pair) for record in other.records]
    return reasons[0] if reasons and all(reasons) else ""


def _reason_order_kept(record: Record, pair: Pair) -> str:
    if not pair.later.stream:
        return ""
    order = [record.order.index(str(launch)) if str(launch) in record.order else None for launch in pair]
    if order[1] is None:
        return ""  # the program took a different path
    if order[0] is not None and order[1] < order[0]:
        return ""
    return record.forced[0] if record.forced else "the host waits for the earlier access first"
