"""Records what a process shares with the others of its job: the collectives that it issues, and finally its report.

A part consists of two files. `NAME.jsonl` has one JSON array per line: first the header, then the groups, signatures
and call sites that the numbers refer to, a digest for each block of a group's collectives, and finally the end.
`NAME.ops` has 12 bytes per collective, in order of issue, written before it runs: the numbers of its group, signature
and call site. A process that dies at any time thus leaves a record of everything that it did, and a comparison of ranks
only has to read blocks that differ.
"""

import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from syncheck import serialization
from syncheck.findings import Location, Report, Summary
from syncheck.hb.ids import SiteId
from syncheck.ranks.signature import Digest, Group, Signature
from syncheck.system import processes
from syncheck.system.descriptors import Descriptor
from syncheck.version import __version__

FORMAT = 1
BLOCK = 1024
"""Number of collectives of a group that share one digest."""
ENTRY = struct.Struct("<III")


@dataclass(frozen=True, slots=True)
class Process:
    """The identity of the process that writes a part.

    Attributes:
        rank: rank in the job; -1 if the process is not a rank.
        size: number of ranks of the job; 0 if unknown.
        attempt: how often the job has been restarted.
    """

    rank: int = -1
    size: int = 0
    attempt: int = 0


@dataclass(slots=True)
class _Sequence:
    """A group's collectives so far: the number of complete blocks, and the incomplete block."""

    number: int
    me: int
    blocks: int = 0
    start: int = 0
    digest: Digest = field(default_factory=Digest)


class Recorder:
    """Writes the part of this process.

    Attributes:
        folder: the folder with the parts of the job.
        process: the identity of this process.
        issued: number of collectives issued.

    Args:
        folder: an existing folder.
        process: the identity of this process.

    Raises:
        OSError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, process: Process) -> None:
        self.folder = folder
        self.process = process
        self.issued = 0
        self._pid = os.getpid()
        who = f"rank-{process.rank:05}" if process.rank >= 0 else "process"
        self.name = f"{who}-{_host()}-{self._pid}"
        self._text = Descriptor.of_file(folder / f"{self.name}.jsonl")
        self._ops = Descriptor.of_file(folder / f"{self.name}.ops")
        self._lock = threading.RLock()
        self._sequences: dict[Group, _Sequence] = {}
        self._signatures: dict[Signature, int] = {}
        self._sites: dict[int, int] = {}
        self._failure: OSError | None = None
        self._has_ended = False
        self._line("part", {
            "format": FORMAT, "version": __version__, "rank": process.rank, "size": process.size,
            "attempt": process.attempt, "host": _host(), "pid": self._pid, "began": time.time(),
            "program": sys.argv[:1],
        })  # fmt: skip

    @property
    def is_in_recorded_process(self) -> bool:
        """Return whether this is the process that the part is about, rather than a forked child of it."""
        return os.getpid() == self._pid

    def issue(self, group: Group, signature: Signature, site: SiteId, location: Callable[[SiteId], Location]) -> None:
        """Record a collective that is about to run.

        Args:
            group: its group.
            signature: its signature.
            site: the call site.
            location: converts a call site to a location.
        """
        if not self.is_in_recorded_process:
            return
        with self._lock:
            sequence = self._sequences.get(group) or self._add_group(group)
            number = self._signatures.get(signature)
            if number is None:
                number = self._signatures[signature] = len(self._signatures)
                self._line("signature", number, signature.data())
            where = self._sites.get(site)
            if where is None:
                where = self._sites[site] = len(self._sites)
                self._line("site", where, serialization.of_location(location(site)))
            self._write(self._ops, ENTRY.pack(sequence.number, number, where))
            self._count(sequence, signature)
            self.issued += 1

    def _add_group(self, group: Group) -> _Sequence:
        me = group.ranks.index(self.process.rank) if self.process.rank in group.ranks else -1
        sequence = self._sequences[group] = _Sequence(len(self._sequences), me)
        self._line("group", sequence.number, group.name, group.ranks)
        return sequence

    def _count(self, sequence: _Sequence, signature: Signature) -> None:
        digest = sequence.digest
        if digest.count == 0:
            sequence.start = self.issued
        digest.add(signature, sequence.me)
        if digest.count == BLOCK:
            self._line("block", sequence.number, sequence.blocks, sequence.start, digest.same, digest.balance)
            sequence.blocks += 1
            sequence.digest = Digest()

    def set_process(self, process: Process) -> None:
        """Record that this process is now known to be a rank."""
        if self.is_in_recorded_process and self.process != process:
            self.process = process
            self.record("rank", [process.rank, process.size, process.attempt])

    def record(self, kind: str, data: object) -> None:
        """Record a property of the process, such as what it waits for."""
        if self.is_in_recorded_process:
            with self._lock:
                self._line(kind, data)

    def end(self, status: int, report: Report, ran: list[str], unused: list[str]) -> None:
        """Record the end of the process.

        Args:
            status: the program's own exit status.
            report: the report of this process.
            ran: the files of the program's call sites.
            unused: suppression comments that suppressed nothing.

        Raises:
            OSError: something could not be written.
        """
        with self._lock:
            if self._has_ended or not self.is_in_recorded_process:
                return
            for finding in report.findings:
                self._line("finding", serialization.of_finding(finding))
            self._line("tails", [
                [s.number, s.start, s.digest.count, s.digest.same, s.digest.balance]
                for s in self._sequences.values()
                if s.digest.count
            ])  # fmt: skip
            self._line("end", {
                "status": status, "incomplete": report.incomplete, "notes": report.notes, "ran": ran, "unused": unused,
                "summary": serialization.of_summary(_on_this_machine(report.summary)),
            })  # fmt: skip
            self._has_ended = True
            self._text.close()
            self._ops.close()
            with suppress(OSError):  # the end itself has been written
                (self.folder / f"{self.name}.over").touch()
        if self._failure is not None:
            raise self._failure

    def _line(self, *record: object) -> None:
        self._write(self._text, json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def _write(self, file: Descriptor, data: bytes) -> None:
        if self._has_ended or self._failure is not None:
            return
        try:
            file.write(data)
        except OSError as error:  # must not reach the program under test
            self._failure = error


def _on_this_machine(summary: Summary) -> Summary:
    """Return a summary whose devices can be told from those of other ranks, which may see other devices as their first.

    Source:
        CUDA C++ Programming Guide, "CUDA Environment Variables": CUDA_VISIBLE_DEVICES lists the devices in their order.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    numbers = {str(index): name.strip() for index, name in enumerate(visible) if name.strip()}
    return replace(summary, used=tuple(f"{_host()} {numbers.get(index, index)}" for index in summary.used))


def _host() -> str:
    return socket.gethostname() or "localhost"


def has_ended(path: Path) -> bool:
    """Return whether the process of a part, given by its text file, has ended or is known to be gone."""
    pid = local_pid(path)
    return path.with_suffix(".over").exists() or (pid > 0 and not processes.is_alive(pid))


def local_pid(path: Path) -> int:
    """Return the process id of a part, given by its text file; 0 if the process was on another machine."""
    _, _, rest = path.stem.partition("-")
    host, _, pid = (rest.partition("-")[2] if path.stem.startswith("rank-") else rest).rpartition("-")
    return int(pid) if host == _host() and pid.isdecimal() else 0


active: Recorder | None = None
"""The recorder of this process; None while it is not part of a job."""


def begin(folder: Path, process: Process) -> Recorder:
    """Open the part of this process.

    Raises:
        OSError: the folder cannot be written to.
    """
    global active  # noqa: PLW0603  one part per process
    active = Recorder(folder, process)
    return active


def current() -> Recorder | None:
    """Return the recorder of this process; None while it is not part of a job, and in a forked child."""
    return active if active is not None and active.is_in_recorded_process else None


def is_beside_ranks() -> bool:
    """Return whether this process is part of a job but no rank, such as one that starts the ranks."""
    recorder = current()
    return recorder is not None and recorder.process.rank < 0
