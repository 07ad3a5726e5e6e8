"""Replay of a trace: consecutive files are replayed on one session, as if they were a single file.

After a missing or truncated file, the next one starts with a new session, because the work pending there is unknown.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from syncheck.errors import TraceError
from syncheck.findings import Report, joined
from syncheck.run.trace import parts
from syncheck.run.trace.codec import Ending, Reader, StoredSites
from syncheck.run.trace.parts import Part
from syncheck.sanitizer.collector import Checkpoint
from syncheck.sanitizer.session import Session

MakeSession = Callable[[str], Session]
"""Creates a new session, or a wrapper that forwards to one, from the backend's description."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive files that were replayed on one session.

    Attributes:
        names: names of the files.
        report: their findings.
    """

    names: tuple[str, ...]
    report: Report


def replay(paths: Sequence[Path], make_session: MakeSession, sites: StoredSites | None = None) -> Report:
    """Replay the calls of a trace on new sessions, and return the findings.

    Args:
        paths: see `parts.named`.
        make_session: creates a session; usually called once.
        sites: receives the call sites.

    Raises:
        TraceError: a file cannot be read, is not a trace, or has a newer format; or the only file is damaged.
        ConfigError: from `make_session`.
    """
    return combine([segment.report for segment in segments(paths, make_session, sites)])


def combine(reports: Sequence[Report]) -> Report:
    """Combine the reports of the segments of a trace."""
    found = reports[0]
    for report in reports[1:]:
        found = joined(found, report)
    return found


def segments(paths: Sequence[Path], make_session: MakeSession, sites: StoredSites | None = None) -> Iterator[Segment]:
    """Replay a trace, and yield each segment of consecutive files with its findings: see `replay`."""
    rest = parts.named(paths)
    sites = sites if sites is not None else StoredSites()
    is_only = len(rest) == 1
    while rest:
        try:
            segment = _SegmentReplay(rest, make_session, sites).replayed()
            n_used = len(segment.names)
        except _DamagedError as error:
            if is_only:
                raise error.cause from error
            n_used, lost = error.n_intact + 1, f"{error.cause}: what it recorded is lost"
            found = _replayed_again(rest[: error.n_intact], make_session, sites)
            segment = replace(found, report=replace(found.report, incomplete=(*found.report.incomplete, lost)))
        yield segment
        rest = rest[n_used:]


def _replayed_again(files: Sequence[Part], make_session: MakeSession, sites: StoredSites) -> Segment:
    """Replay the files before a damaged one again, because the damaged one may have left a call half done."""
    if not files:
        return Segment((), Report())
    try:
        return _SegmentReplay(files, make_session, sites).replayed()
    except _DamagedError as error:
        raise error.cause from error


class _DamagedError(Exception):
    """A file is damaged.

    Args:
        n_intact: number of intact files before it.
        cause: the error.
    """

    def __init__(self, n_intact: int, cause: TraceError) -> None:
        super().__init__(str(cause))
        self.n_intact = n_intact
        self.cause = cause


class _SegmentReplay:
    """Replays files from the first one, as long as they are consecutive."""

    def __init__(self, files: Sequence[Part], make_session: MakeSession, sites: StoredSites) -> None:
        self._files = files
        self._sites = sites
        self._session = make_session(f"a trace of {files[0].backend}")
        self._graphs: set[int] = set()
        self._since: Checkpoint | None = None
        self._n_before = 0  # operators that only represent earlier work

    def replayed(self) -> Segment:
        """Replay the files and return the findings.

        Raises:
            _DamagedError: a file cannot be replayed.
        """
        used: list[str] = []
        for at, part in enumerate(self._files):
            if at and part.number != self._files[at - 1].number + 1:
                break
            try:
                ending, number = self._play(part, is_first=not at)
            except TraceError as error:
                raise _DamagedError(at, error) from error
            used.append(part.path.name)
            if ending is not Ending.CONTINUES:
                break
        self._note_end(used, ending, number)
        return Segment(tuple(used), self._report(len(used) - 1))

    def _play(self, part: Part, *, is_first: bool) -> tuple[Ending, int]:
        """Replay a file; return its ending and the number of its last record."""
        reader = Reader(part.path, self._session, self._sites, self._graphs)
        if part.number > 1:
            reader.declare(is_known=not is_first)
            if is_first:
                self._start_midway(part)
        ending = reader.play()
        if reader.has_unknown_graph and self._since is not None:
            self._session.incomplete(_UNKNOWN_GRAPH.format(self._files[0].path.name))
        return ending, reader.number

    def _start_midway(self, part: Part) -> None:
        """Start in the middle of a trace: declared objects exist, and all earlier work is treated as complete."""
        self._session.reset()
        self._session.incomplete(_STARTS_MIDWAY.format(part.path.name))
        self._since = self._session.collector.checkpoint()
        self._n_before = self._session.n_operators

    def _note_end(self, used: Sequence[str], ending: Ending, number: int) -> None:
        """Note what is missing after the last file that was replayed."""
        is_last = len(used) == len(self._files)
        if ending is Ending.CUT_OFF:
            self._session.incomplete(_CUT_OFF.format(number) if is_last else _CUT_OFF_BETWEEN.format(used[-1], number))
        elif ending is Ending.CONTINUES:
            self._session.incomplete(_CONTINUES.format(used[-1]))

    def _report(self, last: int) -> Report:
        try:
            report = self._session.report(self._sites, self._since)
        except Exception as error:  # damaged calls can also make this fail
            path = self._files[last].path
            raise _DamagedError(last, Reader(path, self._session, self._sites, self._graphs).damaged(error)) from error
        operators = report.summary.operators - self._n_before
        return replace(report, summary=replace(report.summary, operators=operators))


_STARTS_MIDWAY = (
    "{} was replayed without the files before it: what was pending where it begins is unknown, and so is what only a "
    "whole run shows"
)
_UNKNOWN_GRAPH = "a graph was replayed that was captured before {}: its contents are unknown"
_CUT_OFF = "the trace ends early, after record {}: recording was interrupted"
_CUT_OFF_BETWEEN = "{} ends early, after record {}: what it recorded after that is lost"
_CONTINUES = "the trace continues after {}, in a file that was not replayed"
