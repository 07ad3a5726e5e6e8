"""Reads the parts that the processes of a job have written, including truncated ones."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syncheck import serialization
from syncheck.errors import RecordError
from syncheck.findings import Finding, Location, Summary
from syncheck.ranks.signature import Digest, Group, Signature
from syncheck.ranks.stacks import main_thread
from syncheck.ranks.writer import BLOCK, ENTRY, FORMAT, Process

_CHUNK = 4096 * ENTRY.size
_MAX_RANKS = 1 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive collectives of a group.

    Attributes:
        start: index of the first one among all collectives of the process.
    """

    start: int
    digest: Digest


@dataclass(frozen=True, slots=True)
class Hung:
    """What a process waited for when its job hung.

    Attributes:
        group: the group of the collective; "" if it did not wait in one.
        what: the name of the collective.
        location: where the process waited.
    """

    group: str
    what: str
    location: Location


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a process.

    Attributes:
        status: the program's own exit status.
        incomplete, notes: as in `Report`.
        ran: the files of the program's call sites.
        unused: suppression comments that suppressed nothing.
        summary: statistics of the check.
    """

    status: int
    incomplete: tuple[str, ...]
    notes: tuple[str, ...]
    ran: tuple[str, ...]
    unused: tuple[str, ...]
    summary: Summary


@dataclass(slots=True)
class Part:
    """The record of one process.

    Attributes:
        path: the text file.
        process: the identity of the process.
        numbers: group -> its number in this part.
        blocks: blocks of each group, in order; only the last one may be shorter than `BLOCK`.
        hung: what the process waited for when the job hung; None if it did not hang.
        ending: how the process ended; None if the part was cut off.
    """

    path: Path
    process: Process
    numbers: dict[Group, int] = field(default_factory=dict)
    blocks: dict[Group, list[Block]] = field(default_factory=dict)
    hung: Hung | None = None
    ending: Ending | None = None
    _signatures: list[Signature] = field(default_factory=list)
    _sites: list[Location] = field(default_factory=list)
    _tails: list[list[int]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Return whether the program ran to its end without an error."""
        return self.ending is not None and self.ending.status == 0

    def location(self, number: int) -> Location | None:
        """Return the location of a call site; None if the part ends before it."""
        return self._sites[number] if number < len(self._sites) else None

    def stuck(self) -> Location | None:
        """Return where the process was when the job hung, or when it was killed in native code that held the GIL."""
        if self.hung is not None:
            return self.hung.location
        return main_thread(self.path.with_suffix(".stack")) if self.ending is None else None

    def entries(self, group: Group, block: int) -> Iterator[tuple[Signature, int]]:
        """Yield the signature and the call site number of each collective of a block."""
        known = self.blocks.get(group, [])
        if block < len(known):
            found = self._from(group, known[block].start)
            for _, entry in zip(range(known[block].digest.count), found, strict=False):
                yield self._signatures[entry[0]], entry[1]

    def last(self) -> Location | None:
        """Return the call site of the process's last collective; None if it had none."""
        with self._ops() as file:
            n_complete = file.seek(0, os.SEEK_END) // ENTRY.size
            if not n_complete:
                return None
            file.seek((n_complete - 1) * ENTRY.size)
            _, _, site = ENTRY.unpack(file.read(ENTRY.size))
        return self.location(site)

    def _from(self, group: Group, start: int) -> Iterator[tuple[int, int]]:
        number = self.numbers[group]
        with self._ops() as file:
            file.seek(start * ENTRY.size)
            while chunk := file.read(_CHUNK):
                n_bytes = len(chunk) - len(chunk) % ENTRY.size  # the last entry may be truncated
                for which, signature, site in ENTRY.iter_unpack(chunk[:n_bytes]):
                    if which == number and signature < len(self._signatures):
                        yield signature, site

    def _ops(self) -> Any:
        try:
            return self.path.with_suffix(".ops").open("rb")
        except OSError as error:
            raise RecordError(f"cannot read {error.filename}: {error.strerror}", _COPY_HINT) from error

    def complete(self) -> None:
        """Add the incomplete blocks: from the last line, or recomputed if the part was cut off."""
        if self.ending is not None:
            groups = {number: group for group, number in self.numbers.items()}
            for number, start, *digest in self._tails:
                self.blocks[groups[number]].append(_block(start, *digest))
            return
        for group in self.numbers:
            self._recompute_tail(group)

    def _recompute_tail(self, group: Group) -> None:
        known = self.blocks[group]
        me = group.ranks.index(self.process.rank) if self.process.rank in group.ranks else -1
        digest, start, number = Digest(), -1, self.numbers[group]
        skipped = 0 if not known else -BLOCK  # read the last full block again, because its end is unknown
        at = known[-1].start if known else 0
        with self._ops() as file:
            file.seek(at * ENTRY.size)
            while chunk := file.read(_CHUNK):
                n_bytes = len(chunk) - len(chunk) % ENTRY.size
                for which, signature, _ in ENTRY.iter_unpack(chunk[:n_bytes]):
                    if which == number:
                        skipped += 1
                        if skipped > 0 and signature < len(self._signatures):
                            start = at if start < 0 else start
                            digest.add(self._signatures[signature], me)
                    at += 1
        if digest.count:
            known.append(Block(start, digest))

    # -- lines

    def add_record(self, record: list[Any]) -> Finding | None:
        """Process a line; return the finding that it contains, if any."""
        kind, *data = record
        if kind == "finding":
            return serialization.to_finding(data[0])
        handlers: dict[str, Callable[..., None]] = {
            "group": self._read_group, "signature": self._read_signature, "site": self._read_site,
            "block": self._read_block, "tails": self._read_tails, "rank": self._read_rank, "hung": self._read_hung,
            "end": self._read_end,
        }  # fmt: skip
        handlers[kind](*data)
        return None

    def _read_group(self, number: int, name: str, ranks: list[int]) -> None:
        group = Group(str(name), tuple(int(rank) for rank in ranks))
        self.numbers[group], self.blocks[group] = int(number), []

    def _read_signature(self, number: int, data: list[Any]) -> None:
        del number  # signatures are in order
        self._signatures.append(Signature.of(data))

    def _read_site(self, number: int, data: dict[str, Any]) -> None:
        del number  # likewise
        self._sites.append(serialization.to_location(data))

    def _read_block(self, number: int, index: int, start: int, same: int, balance: int) -> None:
        group = next(group for group, known in self.numbers.items() if known == number)
        if index != len(self.blocks[group]):
            raise ValueError(f"block {index} of group {group.name} is out of order")
        self.blocks[group].append(_block(start, BLOCK, same, balance))

    def _read_tails(self, tails: list[list[int]]) -> None:
        self._tails = [[int(number) for number in tail] for tail in tails]

    def _read_rank(self, process: list[int]) -> None:
        self.process = _process(*process)

    def _read_hung(self, data: dict[str, Any]) -> None:
        self.hung = Hung(str(data["group"] or ""), str(data["what"] or ""), serialization.to_location(data["place"]))

    def _read_end(self, data: dict[str, Any]) -> None:
        incomplete, notes, ran, unused = (_strings(data[name]) for name in ("incomplete", "notes", "ran", "unused"))
        summary = serialization.to_summary(data["summary"])
        self.ending = Ending(int(data["status"]), incomplete, notes, ran, unused, summary)


def _strings(data: Any) -> tuple[str, ...]:
    if not isinstance(data, list):
        raise TypeError(f"{type(data).__name__} instead of a list")
    return tuple(str(text) for text in data)


def _block(start: int, count: int, same: int, balance: int) -> Block:
    if start < 0 or count < 0:
        raise ValueError("a block before the first collective")
    return Block(int(start), Digest(int(count), int(same), int(balance)))


def _process(rank: int, size: int, attempt: int) -> Process:
    """Return the identity of the process that wrote a part.

    Raises:
        ValueError: there is no such rank.
    """
    if not (-1 <= rank < max(size, _MAX_RANKS) and 0 <= size <= _MAX_RANKS and attempt >= 0):
        raise ValueError(f"rank {rank} of {size}")
    return Process(int(rank), int(size), int(attempt))


_COPY_HINT = "copy the job's entire folder, and merge again"


def read(path: Path) -> tuple[Part, list[Finding]]:
    """Read a part, whose last line may be truncated.

    Raises:
        RecordError: the part cannot be read, or is damaged.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}", _COPY_HINT) from error
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    try:
        part = _new_part(path, json.loads(lines[0]) if lines else None)
        found = [finding for line in lines[1:] if (finding := part.add_record(json.loads(line))) is not None]
        part.complete()
    except RecordError:
        raise
    except Exception as error:  # damaged data can cause any exception
        raise RecordError(f"{path} is damaged: {type(error).__name__}: {error}", "run the job again") from error
    return part, found


def _new_part(path: Path, header: Any) -> Part:
    if header is None:
        raise RecordError(f"{path} is empty: the process ended before it could write", "")
    kind, data = header
    if kind != "part" or not isinstance(data, dict):
        raise RecordError(f"{path} is not part of a job", "pass a folder written by `syncheck run`")
    if data["format"] != FORMAT:
        hint = "use the same version of syncheck on all ranks"
        raise RecordError(
            f"{path} was written by syncheck {data['version']}, whose format this version cannot read", hint
        )
    return Part(path, _process(data["rank"], data["size"], data["attempt"]))


def paths(folder: Path) -> list[Path]:
    """Return the text files of all parts in a folder, sorted by rank."""
    return sorted(path for pattern in ("rank-*.jsonl", "process-*.jsonl") for path in folder.glob(pattern))
