"""Comparison of the values that two runs of a program computed."""

from collections import defaultdict, deque
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


def nondeterministic_lines(one: Rerun, other: Rerun) -> frozenset[int]:
    """Return the numbers of printed lines that differ between two runs in the same order, such as lines with times."""
    pairs = enumerate(zip_longest(one.output, other.output))
    return frozenset(number for number, (one_line, other_line) in pairs if one_line != other_line)


def differences(
    reference: Rerun,
    other: Rerun,
    pair: Pair | None = None,
    nondeterministic: frozenset[int] = frozenset(),
    rank: int | None = None,
) -> tuple[Difference, ...]:
    """Return the differences between two runs, the most significant first.

    Args:
        reference: the run in program order.
        other: the run in another order.
        pair: the accesses whose order differs.
        nondeterministic: numbers of printed lines that differ even between runs in the same order.
        rank: the rank of these accesses; None if they may be on any rank.
    """
    found = [*_compare_endings(reference, other)]
    if reference.records and other.records:
        found += differences_at(reference, other, pair, rank) if pair is not None else ()
        found += _compare_output(reference, other, nondeterministic)
        found += _compare_ranks(
            reference, other, lambda one, two: _first_difference("what the host gets at {}", one.host, two.host)
        )
        found += _compare_ranks(reference, other, lambda one, two: _compare_final(one.final, two.final))
    else:
        found += _compare_output(reference, other, nondeterministic)
    return tuple(found)


def ends_differently(reference: Rerun, repeat: Rerun, other: Rerun) -> tuple[Difference, ...]:
    """Return how another run ends, if it ends differently and two runs in program order end alike."""
    return tuple(_compare_endings(reference, other)) if not _compare_endings(reference, repeat) else ()


def is_only_printed(found: tuple[Difference, ...]) -> bool:
    """Return whether all differences are in printed lines, which may contain times or memory usage."""
    return all(one.what.startswith(_PRINTED) for one in found)


def differences_at(reference: Rerun, other: Rerun, pair: Pair, only_rank: int | None = None) -> tuple[Difference, ...]:
    """Return the differences at the two accesses of a race: in what they read, or in what is left of their writes."""
    return tuple(_compare_ranks(reference, other, lambda one, two: _compare_accesses(one, two, pair), only_rank))


def _compare_ranks(
    reference: Rerun, other: Rerun, compare: Callable[[Record, Record], list[Difference]], only_rank: int | None = None
) -> list[Difference]:
    """Return the differences in the first process that has any, or in the process with rank `only_rank`."""
    for rank, (one, two) in enumerate(zip(reference.records, other.records, strict=False)):
        found = compare(one, two) if only_rank in {None, rank} else []
        if found and len(reference.records) > 1:
            found = [replace(each, what=f"in rank {rank}, {each.what}") for each in found]
        if found:
            return found
    return []


def _compare_endings(reference: Rerun, other: Rerun) -> list[Difference]:
    if (reference.status, _reason(reference)) == (other.status, _reason(other)):
        return []
    return [Difference("how the program ends", _ending(reference), _ending(other))]


def _ending(run: Rerun) -> str:
    reason = _reason(run)
    return _cut(reason) if reason else f"with status {run.status}"


def _reason(run: Rerun) -> str:
    """Return the reason that a failed run gave. A run to the end has none, as its last line may be a warning."""
    return run.exception or ("" if run.records else run.error)


def _compare_accesses(reference: Record, other: Record, pair: Pair) -> list[Difference]:
    found = []
    for launch in (pair.later, pair.earlier):
        found += _compare_launch("what {} reads", reference.read, other.read, launch, reference)
    if not found:
        for launch in (pair.later, pair.earlier):
            found += _compare_launch("what is left of what {} writes", reference.left, other.left, launch, reference)
    return found


def _compare_launch(
    what: str, reference: dict[str, list[Values]], other: dict[str, list[Values]], launch: LaunchId, record: Record
) -> list[Difference]:
    name = str(launch)
    pairs = zip(reference.get(name, []), other.get(name, []), strict=False)
    place = record.places.get(name, "a launch")
    return [_difference(what.format(place), one, two) for one, two in pairs if one.checksum != two.checksum][:1]


def _compare_output(reference: Rerun, other: Rerun, nondeterministic: frozenset[int]) -> list[Difference]:
    lines = [
        (number, one, two)
        for number, (one, two) in enumerate(zip_longest(reference.output, other.output))
        if one != two and number not in nondeterministic
    ]
    if not lines:
        return []
    number, one, two = lines[0]
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return [Difference(f"{_PRINTED} {number + 1}{more}", _quoted(one), _quoted(two))]


def _first_difference(what: str, reference: list[Values], other: list[Values]) -> list[Difference]:
    """Return the first difference between values at the same place; threads may reach different places in any order."""
    later: dict[str, deque[Values]] = defaultdict(deque)
    for values in other:
        later[values.place].append(values)
    for one in reference:
        two = later[one.place].popleft() if later[one.place] else None
        if two is None:
            return [Difference(what.format(one.place), _shown(one), _NOTHING)]
        if one.checksum != two.checksum:
            return [_difference(what.format(one.place), one, two)]
    left = {id(values) for queue in later.values() for values in queue}
    extra = next((values for values in other if id(values) in left), None)
    return [] if extra is None else [Difference(what.format(extra.place), _NOTHING, _shown(extra))]


def _compare_final(reference: list[Values], other: list[Values]) -> list[Difference]:
    changed = [(one, two) for one, two in zip(reference, other, strict=False) if one.checksum != two.checksum]
    if not changed:
        return []
    one, two = changed[0]
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    what = "pinned memory" if one.place.startswith("<unknown>") else f"the tensor made at {one.place}"
    return [_difference(f"at the end, {what}{more}", one, two)]


def _difference(what: str, reference: Values, other: Values) -> Difference:
    first = next((i for i, (a, b) in enumerate(zip(reference.shown, other.shown, strict=False)) if a != b), None)
    if first is None:
        return Difference(what, f"values with checksum {reference.checksum:08x}", f"with checksum {other.checksum:08x}")
    where = f", from value {first} on" if first else ""
    return Difference(what + where, _shown(reference, first), _shown(other, first))


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
