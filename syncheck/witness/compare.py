"""Comparison of the values that two runs of a program computed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest

from syncheck.witness.proofs import Difference
from syncheck.witness.record import Record, Values
from syncheck.witness.schedule import LaunchId, Pair

_VALUES = 3
"""Maximum number of values shown, starting from the first that differs."""
_TEXT = 80
_NOTHING = "nothing"
_PRINTED = "printed line"


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run of the program under a schedule.

    Attributes:
        output: the lines that it printed.
        status: its exit status.
        error: the last line of its standard error, if it failed.
        exception: the uncaught exception that ended it, in one line; "" if there was none.
        records: the records of its processes, by rank; empty if it did not run to the end.
        timed_out: whether it was terminated because it took too long.
    """

    output: tuple[str, ...]
    status: int
    error: str
    records: tuple[Record, ...] = ()
    timed_out: bool = False
    exception: str = ""

    def of_rank(self, rank: int | None) -> "Rerun":
        """Return the run with only one rank's record, or the run itself for None."""
        return self if rank is None else replace(self, records=self.records[rank : rank + 1])

    @property
    def failure(self) -> str:
        """How syncheck itself failed in the run; "" if it did not."""
        return next((record.failed for record in self.records if record.failed), "")


def unsteady_lines(one: Rerun, other: Rerun) -> frozenset[int]:
    """Return the numbers of printed lines that differ between two runs in the same order, such as lines with times."""
    pairs = enumerate(zip_longest(one.output, other.output))
    return frozenset(number for number, (line, same) in pairs if line != same)


def differences(
    usual: Rerun,
    other: Rerun,
    pair: Pair | None = None,
    unsteady: frozenset[int] = frozenset(),
    rank: int | None = None,
) -> tuple[Difference, ...]:
    """Return the differences between two runs, the most significant first.

    Args:
        usual: the run in program order.
        other: the run in another order.
        pair: the accesses whose order differs.
        unsteady: numbers of printed lines that differ even between runs in the same order.
        rank: the rank of these accesses; None if they may be on any rank.
    """
    found = [*_ends(usual, other)]
    if usual.records and other.records:
        found += differences_at(usual, other, pair, rank) if pair is not None else ()
        found += _printed(usual, other, unsteady)
        found += _of_ranks(usual, other, lambda one, two: _first("what the host gets at {}", one.host, two.host))
        found += _of_ranks(usual, other, lambda one, two: _final(one.final, two.final))
    else:
        found += _printed(usual, other, unsteady)
    return tuple(found)


def ends_differently(usual: Rerun, same: Rerun, other: Rerun) -> tuple[Difference, ...]:
    """Return how another run ends, if it ends differently and two runs in program order end alike."""
    return tuple(_ends(usual, other)) if not _ends(usual, same) else ()


def is_only_printed(found: tuple[Difference, ...]) -> bool:
    """Return whether all differences are in printed lines, which may contain times or memory usage."""
    return all(one.what.startswith(_PRINTED) for one in found)


def differences_at(usual: Rerun, other: Rerun, pair: Pair, only: int | None = None) -> tuple[Difference, ...]:
    """Return the differences at the two accesses of a race: in what they read, or in what is left of their writes."""
    return tuple(_of_ranks(usual, other, lambda one, two: _at_accesses(one, two, pair), only))


def _of_ranks(
    usual: Rerun, other: Rerun, compare: Callable[[Record, Record], list[Difference]], only: int | None = None
) -> list[Difference]:
    """Return the differences in the first process that has any, or in the process with rank `only`."""
    for rank, (one, two) in enumerate(zip(usual.records, other.records, strict=False)):
        found = compare(one, two) if only in {None, rank} else []
        if found and len(usual.records) > 1:
            found = [replace(each, what=f"in rank {rank}, {each.what}") for each in found]
        if found:
            return found
    return []


def _ends(usual: Rerun, other: Rerun) -> list[Difference]:
    if (usual.status, _reason(usual)) == (other.status, _reason(other)):
        return []
    return [Difference("how the program ends", _end(usual), _end(other))]


def _end(run: Rerun) -> str:
    reason = _reason(run)
    return _cut(reason) if reason else f"with status {run.status}"


def _reason(run: Rerun) -> str:
    """Return the reason that a failed run gave. A run to the end has none, as its last line may be a warning."""
    return run.exception or ("" if run.records else run.error)


def _at_accesses(usual: Record, other: Record, pair: Pair) -> list[Difference]:
    found = []
    for launch in (pair.later, pair.earlier):
        found += _of_launch("what {} reads", usual.read, other.read, launch, usual)
    if not found:
        for launch in (pair.later, pair.earlier):
            found += _of_launch("what is left of what {} writes", usual.left, other.left, launch, usual)
    return found


def _of_launch(
    what: str, usual: dict[str, list[Values]], other: dict[str, list[Values]], launch: LaunchId, record: Record
) -> list[Difference]:
    name = str(launch)
    pairs = zip(usual.get(name, []), other.get(name, []), strict=False)
    place = record.places.get(name, "a launch")
    return [_difference(what.format(place), one, two) for one, two in pairs if one.checksum != two.checksum][:1]


def _printed(usual: Rerun, other: Rerun, unsteady: frozenset[int]) -> list[Difference]:
    lines = [
        (number, one, two)
        for number, (one, two) in enumerate(zip_longest(usual.output, other.output))
        if one != two and number not in unsteady
    ]
    if not lines:
        return []
    number, one, two = lines[0]
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return [Difference(f"{_PRINTED} {number + 1}{more}", _quoted(one), _quoted(two))]


def _first(what: str, usual: list[Values], other: list[Values]) -> list[Difference]:
    for one, two in zip_longest(usual, other):
        if one is None or two is None:
            place = (one or two).place
            return [Difference(what.format(place), _shown(one), _shown(two))]
        if one.checksum != two.checksum:
            return [_difference(what.format(one.place), one, two)]
    return []


def _final(usual: list[Values], other: list[Values]) -> list[Difference]:
    changed = [(one, two) for one, two in zip(usual, other, strict=False) if one.checksum != two.checksum]
    if not changed:
        return []
    one, two = changed[0]
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    what = "pinned memory" if one.place.startswith("<unknown>") else f"the tensor made at {one.place}"
    return [_difference(f"at the end, {what}{more}", one, two)]


def _difference(what: str, usual: Values, other: Values) -> Difference:
    first = next((i for i, (a, b) in enumerate(zip(usual.shown, other.shown, strict=False)) if a != b), None)
    if first is None:
        return Difference(what, f"values with checksum {usual.checksum:08x}", f"with checksum {other.checksum:08x}")
    where = f", from value {first} on," if first else ""
    return Difference(what + where, _shown(usual, first), _shown(other, first))


def _shown(values: Values | None, first: int = 0) -> str:
    if values is None:
        return _NOTHING
    shown = values.shown[first : first + _VALUES]
    more = ", ..." if values.count > first + len(shown) else ""
    return f"[{', '.join(shown)}{more}]" if values.count > 1 else "".join(shown) or "no value"


def _quoted(line: str | None) -> str:
    return _NOTHING if line is None else repr(_cut(line))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}..."
