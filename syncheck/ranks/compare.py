"""Finds where the ranks of a group stop issuing the same collectives (SYN604).

One pass over the digests of all parts finds, for each group, the first block in which ranks differ. Only those blocks
are then read. Memory use is one digest per block of each group, regardless of the number of ranks.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from syncheck.findings import UNKNOWN, Finding, Location
from syncheck.ranks.reader import Part
from syncheck.ranks.signature import Digest, Group, Signature
from syncheck.rules import collective_mismatch

_MAX_RELATED = 3
_MAX_READ = 2 * _MAX_RELATED
"""The most ranks whose locations are read among those that issued the same; other ranks' locations are not reported."""
_NOTHING = "no further collective"
_ORDER = "issue the same collectives in the same order on every rank of the group"

Load = Callable[[Path], Part]


@dataclass(slots=True)
class _Seen:
    """One block of a group, over all ranks seen so far.

    Attributes:
        first: the digest of the first rank.
        balance: sum over all ranks of what was sent minus what was received.
        n_ranks: number of ranks with the block, excluding crashed ranks.
        others: the ranks with each other digest.
    """

    first: Digest
    balance: int = 0
    n_ranks: int = 0
    others: dict[tuple[int, int], list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class Rank:
    """Properties of a rank other than its collectives.

    Attributes:
        path: its part.
        is_done: whether its program ran to its end.
        group: the group of the collective that it hung in; "" if it hung in none.
        what: the name of that collective.
        stuck: where it hung; None if it did not.
    """

    path: Path
    is_done: bool
    group: str
    what: str
    stuck: Location | None

    @property
    def has_crashed(self) -> bool:
        """Return whether the rank ended for a reason of its own, which explains missing collectives."""
        return not self.is_done and self.stuck is None


@dataclass(slots=True)
class Issued:
    """A rank's collective at the position where ranks differ; None for no collective."""

    rank: int
    signature: Signature | None
    location: Location | None


class Comparison:
    """Compares the ranks of a job.

    Attributes:
        ranks: all ranks added so far.
    """

    def __init__(self) -> None:
        self.ranks: dict[int, Rank] = {}
        self._seen: dict[Group, list[_Seen]] = {}
        self._n_blocks: dict[tuple[str, int], int] = {}  # (name of a group, rank) -> number of blocks

    def add(self, part: Part) -> None:
        """Add the digests of a rank."""
        waited_in, what = (part.hung.group, part.hung.what) if part.hung is not None else ("", "")
        rank = Rank(part.path, part.is_done, waited_in, what, part.stuck())
        number = part.process.rank
        self.ranks[number] = rank
        for group, blocks in part.blocks.items():
            seen = self._seen.setdefault(group, [])
            self._n_blocks[group.name, number] = len(blocks)
            for index, block in enumerate(blocks):
                if index == len(seen):
                    seen.append(_Seen(Digest(block.digest.count, block.digest.same)))
                known = seen[index]
                digest = block.digest.count, block.digest.same
                if digest != (known.first.count, known.first.same):
                    known.others.setdefault(digest, []).append(number)
                known.balance = (known.balance + block.digest.balance) & ((1 << 64) - 1)
                known.n_ranks += not rank.has_crashed

    def findings(self, load: Load) -> list[Finding]:
        """Return the findings; `load` reads a part again."""
        mismatches: list[Finding] = []
        missing: list[tuple[bool, Finding]] = []
        for group, seen in self._seen.items():
            members = [rank for rank in group.ranks if rank in self.ranks]
            for index, block in enumerate(seen):
                if not self._is_suspicious(block, group, members):
                    continue
                issued = self._first_difference(group, index, members, load)
                finding = self._explain(group, issued)
                if finding is not None and all(entry.signature for entry in issued):
                    mismatches.append(finding)
                elif finding is not None:
                    missing.append((self._is_consequence(group, issued), finding))
                if issued:
                    break
        if mismatches:
            return mismatches
        causes = [finding for is_consequence, finding in missing if not is_consequence]
        return causes or [finding for _, finding in missing[:1]] or self._deadlock(load)

    def _deadlock(self, load: Load) -> list[Finding]:
        """Return a finding if ranks with equal sequences wait for each other in different groups.

        Each group's sequence is the same in all ranks, and yet a stream of one rank is at a collective of one group
        while a stream of another rank is at one of another group. GPUs can run ahead of the host into such a deadlock.
        """
        waiting: dict[str, list[int]] = {}
        for number, rank in sorted(self.ranks.items()):
            if rank.group:
                waiting.setdefault(rank.group, []).append(number)
        if len(waiting) < 2:
            return []
        majority, minority = sorted(waiting.values(), key=lambda ranks: (-len(ranks), ranks))[:2]
        one, other = (self._last(ranks[0], load) for ranks in (minority, majority))
        if one is None or other is None or not set(minority) & set(other[0].ranks):
            return []
        operation, expected = (f"{issued.signature} in group {group.name}" for group, issued in (one, other))
        related = [_with(other[1].location, f"rank {majority[0]} issues {expected} here")]
        ranks = [Issued(rank, None, None) for rank in minority]
        return [_finding(minority[0], operation, expected, _Locations(one[1].location, related, ranks), _ORDER)]

    def _last(self, number: int, load: Load) -> tuple[Group, Issued] | None:
        """Return the last collective of a rank in the group that it hangs in."""
        part = load(self.ranks[number].path)
        group = next((group for group in part.numbers if group.name == self.ranks[number].group), None)
        blocks = part.blocks.get(group, []) if group is not None else []
        if group is None or not blocks:
            return None
        return group, self._at(part, group, len(blocks) - 1, blocks[-1].digest.count - 1)

    def _is_suspicious(self, block: _Seen, group: Group, members: list[int]) -> bool:
        if block.others or block.n_ranks < sum(not self.ranks[rank].has_crashed for rank in members):
            return True
        return bool(block.balance) and len(members) == len(group.ranks)

    def _is_consequence(self, group: Group, issued: list[Issued]) -> bool:
        """Return whether ranks without the collective wait in another group, which may be the cause."""
        absent = [self.ranks[entry.rank] for entry in issued if entry.signature is None]
        return any(rank.group not in {"", group.name} for rank in absent)

    # -- the first difference

    def _first_difference(self, group: Group, block: int, members: list[int], load: Load) -> list[Issued]:
        """Return what each member issued at their first difference; [] if there is none."""
        equal_ranks = self._equal_ranks(group, block, members)
        longest: list[int] = []
        for ranks in equal_ranks:  # loads one part at a time
            longest = max(longest, self._digests(ranks[0], group, block, load), key=len)
        at = len(longest)
        for ranks in equal_ranks:
            digests = self._digests(ranks[0], group, block, load)
            if not self.ranks[ranks[0]].has_crashed:
                digests += [-1] * (len(longest) - len(digests))
            at = next((index for index, (a, b) in enumerate(zip(longest[:at], digests, strict=False)) if a != b), at)
        if at == len(longest):
            return self._unbalanced(group, block, members, load)
        issued: list[Issued] = []
        for ranks in equal_ranks:
            issued += [self._at(load(self.ranks[rank].path), group, block, at) for rank in ranks[:_MAX_READ]]
            issued += [replace(issued[-1], rank=rank) for rank in ranks[_MAX_READ:]]
        order = {rank: position for position, rank in enumerate(members)}
        issued.sort(key=lambda entry: order[entry.rank])
        return [entry for entry in issued if entry.signature or not self.ranks[entry.rank].has_crashed]

    def _equal_ranks(self, group: Group, block: int, members: list[int]) -> list[list[int]]:
        """Group the members that issued the same in a block and that either all crashed or all did not."""
        other = {rank: digest for digest, ranks in self._seen[group][block].others.items() for rank in ranks}
        found: dict[tuple[bool, tuple[int, int] | None, bool], list[int]] = {}
        for rank in members:
            has_block = block < self._n_blocks.get((group.name, rank), 0)
            found.setdefault((has_block, other.get(rank), self.ranks[rank].has_crashed), []).append(rank)
        return list(found.values())

    def _digests(self, rank: int, group: Group, block: int, load: Load) -> list[int]:
        return [signature.digest for signature, _ in load(self.ranks[rank].path).entries(group, block)]

    @staticmethod
    def _at(part: Part, group: Group, block: int, at: int) -> Issued:
        entry = next((e for index, e in enumerate(part.entries(group, block)) if index == at), None)
        signature, location = (None, part.last()) if entry is None else (entry[0], part.location(entry[1]))
        return Issued(part.process.rank, signature, location)

    def _unbalanced(self, group: Group, block: int, members: list[int], load: Load) -> list[Issued]:
        """Return the first collective in which a rank receives a different number of elements than is sent to it."""
        balance: list[Digest] = []
        for rank in members:
            me = group.ranks.index(rank)
            for index, (signature, _) in enumerate(load(self.ranks[rank].path).entries(group, block)):
                if index == len(balance):
                    balance.append(Digest())
                alone = Digest(index)
                alone.add(signature, me)
                balance[index].balance = (balance[index].balance + alone.balance) & ((1 << 64) - 1)
        at = next((index for index, entry in enumerate(balance) if entry.balance), None)
        if at is None:
            return []
        return [self._at(load(self.ranks[rank].path), group, block, at) for rank in members]

    # -- descriptions

    def _explain(self, group: Group, issued: list[Issued]) -> Finding | None:
        if not issued:
            return None
        kinds: dict[Signature | None, list[Issued]] = {}
        for entry in issued:
            key = replace(entry.signature, pairs=()) if entry.signature else None
            kinds.setdefault(key, []).append(entry)
        if len(kinds) == 1:
            return _split_sizes(group, issued)
        present = {key: entries for key, entries in kinds.items() if key is not None}
        if len(present) > 1:
            return _mismatch(present)
        return self._missing(group, next(iter(present.values())), kinds[None])

    def _missing(self, group: Group, present: list[Issued], absent: list[Issued]) -> Finding:
        call = present[0]
        assert call.signature is not None  # present ranks have issued something
        lacking = absent[0]
        stuck = self.ranks[lacking.rank].stuck
        if len(present) < len(absent) and stuck is None:
            location, rank, ranks = call.location, call.rank, present
            operation, expected = str(call.signature), _NOTHING
            related = [_with(entry.location, f"the last collective of rank {entry.rank}") for entry in absent]
        else:
            location, rank, ranks = (stuck or call.location), lacking.rank, absent
            operation, expected = self._describe_divergence(lacking.rank), str(call.signature)
            if self.ranks[lacking.rank].group not in {"", group.name}:
                expected += f" in group {group.name}"
            related = [_with(entry.location, f"rank {entry.rank} issues {entry.signature} here") for entry in present]
            if stuck is None:
                related.append(_with(lacking.location, f"the last collective of rank {lacking.rank}"))
        advice = "make every rank of the group issue the same collectives the same number of times"
        return _finding(rank, operation, expected, _Locations(location, related, ranks), advice)

    def _describe_divergence(self, number: int) -> str:
        """Return a description of what a rank does instead of the collective of the others."""
        rank = self.ranks[number]
        if rank.group:
            return f"{rank.what} in group {rank.group}"
        return _NOTHING if rank.stuck is None else "no collective (it is stuck here)"


@dataclass(slots=True)
class _Locations:
    primary: Location | None
    related: Iterable[Location | None]
    ranks: list[Issued] = field(default_factory=list)


def _mismatch(kinds: dict[Signature, list[Issued]]) -> Finding:
    majority = max(kinds, key=lambda key: (len(kinds[key]), -kinds[key][0].rank))
    minority = sorted(
        (entry for key, entries in kinds.items() if key != majority for entry in entries), key=lambda e: e.rank
    )
    call = minority[0]
    assert call.signature is not None  # only ranks that issued something are compared
    others = [kinds[majority][0], *minority[1:]]
    related = [_with(entry.location, f"rank {entry.rank} issues {entry.signature} here") for entry in others]
    what = " and ".join(call.signature.differences(majority))
    advice = f"use the same {what} on rank {call.rank} and rank {kinds[majority][0].rank} at this point"
    if what == "operation":
        advice = _ORDER
    return _finding(call.rank, str(call.signature), str(majority), _Locations(call.location, related, minority), advice)


def _split_sizes(group: Group, issued: list[Issued]) -> Finding | None:
    """Explain an exchange in which one rank sends a different number of elements than the other expects."""
    sent, received = {}, {}
    for entry in issued:
        me = group.ranks.index(entry.rank)
        for sender, receiver, elements in entry.signature.pairs if entry.signature else ():
            if sender == me:
                sent[sender, receiver] = (elements, entry)
            if receiver == me:
                received[sender, receiver] = (elements, entry)
    for pair, (elements, entry) in sorted(sent.items(), key=lambda item: item[0]):
        wanted, other = received.get(pair, (0, entry))
        if wanted != elements and entry.signature is not None:
            operation = f"{entry.signature.operation} with {elements} elements for rank {other.rank}"
            expected = str(wanted)
            related = [_with(other.location, f"rank {other.rank} issues it here")]
            advice = f"make rank {entry.rank} send as many elements to rank {other.rank} as rank {other.rank} expects"
            return _finding(
                entry.rank, operation, expected, _Locations(entry.location, related, [entry, other]), advice
            )
    return None


def _finding(rank: int, operation: str, expected: str, locations: _Locations, advice: str) -> Finding:
    location = locations.primary or next((location for location in locations.related if location), None) or UNKNOWN
    facts = {"rank": str(rank), "operation": operation, "expected": expected}
    ranks = tuple(sorted({entry.rank for entry in locations.ranks}))
    found = Finding.of(collective_mismatch.RULE, location, **facts)
    related = tuple(_unique(location, locations.related))[:_MAX_RELATED]
    return replace(found, related=related, help=advice, rank=rank, ranks=ranks)


def _unique(primary: Location, locations: Iterable[Location | None]) -> Iterator[Location]:
    """Yield the locations without duplicates; at the primary one, only those that name what another rank issues."""
    seen = set()
    for location in locations:
        if location is not None and (location.frame, "last" in location.message) not in seen:
            seen.add((location.frame, "last" in location.message))
            if location.frame != primary.frame or "issues" in location.message:
                yield location


def _with(location: Location | None, message: str) -> Location | None:
    return location and replace(location, message=message)


RULES = (collective_mismatch.RULE,)
"""The rules that this module reports."""
