"""Merges all parts of a job into one report, and decides which process merges."""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from syncheck.errors import RecordError
from syncheck.findings import Finding, Report, Summary, format_ranks, merge_equal
from syncheck.ranks.compare import Comparison
from syncheck.ranks.reader import Part, paths, read
from syncheck.ranks.writer import has_ended, local_pid
from syncheck.system import processes
from syncheck.witness.schedule import Pair

_CLAIM = "merged"
_HOW_TO_RECORD = "give each rank the same folder: `syncheck run --ranks-dir DIR`"


@dataclass(slots=True)
class Merged:
    """A job's report.

    Attributes:
        report: the findings of all processes.
        ran: the files of their call sites.
        is_complete: whether all ranks left a part and their programs ended.
    """

    report: Report = field(default_factory=Report)
    ran: set[str] = field(default_factory=set)
    is_complete: bool = True


def claim(folder: Path) -> bool:
    """Return whether this process is to merge, because it is the first to call this."""
    try:
        os.close(os.open(folder / _CLAIM, os.O_CREAT | os.O_EXCL))
    except OSError:
        return False
    return True


def remove(folder: Path) -> None:
    """Remove a claimed folder atomically, so that no other process can claim what is left of it."""
    removed = folder.with_name(f"{folder.name}.removed-{os.getpid()}")
    try:
        folder.rename(removed)
    except OSError:  # on Windows, if a file in it is open
        removed = folder
    shutil.rmtree(removed, ignore_errors=True)


def is_claimed(folder: Path) -> bool:
    """Return whether another process is merging, or has merged and removed the folder."""
    return (folder / _CLAIM).exists() or not folder.exists()


def all_ended(folder: Path) -> bool:
    """Return whether all processes with a part have ended or are known to be gone; only file names are read."""
    return all(map(has_ended, paths(folder)))


def count_ranks(folder: Path) -> int:
    """Return the number of ranks that have a part."""
    return len({path.name.split("-")[1] for path in paths(folder) if path.name.startswith("rank-")})


def folders(candidates: Iterable[Path]) -> list[Path]:
    """Return the folders that contain parts: the given ones, or their subfolders.

    Raises:
        RecordError: there are none.
    """
    found: list[Path] = []
    candidates = tuple(candidates)
    for folder in candidates:
        if not folder.is_dir():
            raise RecordError(f"no such folder: {str(folder)!r}", "pass the folder that the ranks wrote to")
        inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and paths(path)]
        if not paths(folder) and len(inner) > 1:
            hint = f"pass one of them: {inner[-1]}"
            raise RecordError(f"{folder} contains {len(inner)} jobs: {', '.join(path.name for path in inner)}", hint)
        found += [folder] if paths(folder) else inner
    if not found:
        where = " or ".join(map(repr, map(str, candidates)))
        raise RecordError(f"no rank records in {where}", _HOW_TO_RECORD)
    return found


def merge(given: Iterable[Path]) -> Merged:
    """Merge the parts in folders, loading one part at a time.

    Raises:
        RecordError: there are no parts.
    """
    found = [path for folder in folders(given) for path in paths(folder)]
    merger = _Merger(lambda path: read(path)[0])
    for path in found:
        try:
            part, findings = read(path)
        except RecordError as error:
            merger.add_unreadable(path, error)
        else:
            merger.add(part, findings)
    return merger.merged()


def kill_all(folder: Path) -> None:
    """Kill the processes on this machine that have not ended: they are stuck in native code."""
    for path in paths(folder):
        pid = local_pid(path)
        if pid not in {0, os.getpid()} and not has_ended(path):
            with contextlib.suppress(OSError):
                processes.kill(pid)


class _Merger:
    def __init__(self, load: Callable[[Path], Part]) -> None:
        self._load = load
        self._merged = Merged()
        self._comparison = Comparison()
        self._findings: tuple[Finding, ...] = ()
        self._summaries: list[Summary] = []
        self._reasons: dict[str, list[int]] = {}
        self._notes: dict[str, list[int]] = {}
        self._unused: Counter[str] = Counter()
        self._n_read = 0
        self._size = 0
        self._attempt = 0
        self._problems: list[str] = []

    def add_unreadable(self, path: Path, error: RecordError) -> None:
        """Note a part that cannot be used."""
        hint = f" ({error.hint})" if error.hint else ""
        self._problems.append(f"{error}{hint}" if str(path) in str(error) else f"{path}: {error}{hint}")
        self._merged.is_complete = False

    def add(self, part: Part, findings: list[Finding]) -> None:
        """Add a part."""
        rank, ending = part.process.rank, part.ending
        self._n_read += 1
        self._size = max(self._size, part.process.size)
        if rank >= 0:
            ranks = (rank,)
            findings = [replace(finding, rank=rank, ranks=ranks, pairs=_pairs(rank, finding)) for finding in findings]
            self._add_to_comparison(part)
        self._findings = merge_equal([*self._findings, *findings])
        if ending is None:
            self._merged.is_complete = False
            self._reasons.setdefault(_NO_END, []).append(rank)
            return
        self._merged.ran.update(ending.ran)
        self._unused.update(ending.unused)
        self._summaries.append(ending.summary)
        for texts, kept in ((ending.incomplete, self._reasons), (ending.notes, self._notes)):
            for text in texts:
                kept.setdefault(text, []).append(rank)

    def _add_to_comparison(self, part: Part) -> None:
        """Compare only the ranks of the job's last attempt; earlier attempts were cut off."""
        if part.process.attempt > self._attempt:
            self._attempt, self._comparison = part.process.attempt, Comparison()
        if part.process.attempt == self._attempt:
            self._comparison.add(part)

    def merged(self) -> Merged:
        """Return the merged report."""
        ranks = sorted(self._comparison.ranks)
        missing = sorted(set(range(self._size)) - set(ranks))
        if missing:
            self._merged.is_complete = False
            self._problems.append(
                f"{format_ranks(missing)} of {self._size} left no record: not checked, or ended too early"
            )
        mismatches = self._mismatches()
        findings = merge_equal([*self._findings, *mismatches])
        unused = [text for text, number in self._unused.items() if number == self._n_read]
        reasons = [*self._problems, *(_with_ranks(text, who, len(ranks)) for text, who in self._reasons.items())]
        notes = [*(_with_ranks(text, who, len(ranks)) for text, who in self._notes.items()), *unused]
        summary = _sum(self._summaries, len(ranks))
        self._merged.report = Report(findings, tuple(reasons), tuple(notes), summary)
        return self._merged

    def _mismatches(self) -> list[Finding]:
        """Return the mismatches between ranks; damaged numbers may cause any exception."""
        try:
            return self._comparison.findings(self._load)
        except Exception as error:  # noqa: BLE001  the findings of the ranks are shown regardless
            self._problems.append(f"the ranks' collectives could not be compared: {type(error).__name__}: {error}")
            self._merged.is_complete = False
            return []


_NO_END = "the record has no end, so findings may be missing: crashed, killed, or still running"


def _pairs(rank: int, finding: Finding) -> tuple[tuple[int, Pair], ...]:
    return ((rank, finding.pair),) if finding.pair is not None else ()


def _with_ranks(text: str, ranks: list[int], n_ranks: int) -> str:
    """Return a text with the ranks that report it, if these are not all ranks."""
    known = [rank for rank in ranks if rank >= 0]
    is_all = len(set(known)) == n_ranks and text != _NO_END
    return text if is_all or not known else f"{format_ranks(known)}: {text}"


def _sum(summaries: list[Summary], n_ranks: int) -> Summary:
    if not summaries:
        return Summary(ranks=n_ranks)
    used = {device for summary in summaries for device in summary.used}
    backend = Counter(summary.backend for summary in summaries).most_common(1)[0][0]
    return Summary(
        backend=backend,
        operators=sum(summary.operators for summary in summaries),
        streams=sum(summary.streams for summary in summaries),  # no process can use those of another
        devices=max(len(used), *(summary.devices for summary in summaries)),
        seconds=max(summary.seconds for summary in summaries),
        ranks=n_ranks,
    )
