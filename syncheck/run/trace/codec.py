"""Trace files: gzip-compressed JSON lines, one call of `Monitor` each, after a header line.

A call is `[name, [argument, ...], {keyword: value}]`. The call sites that it refers to precede it as
`["site", id, location, bound name]`, followed by the rules that the program ignores there, if any. The last line is
`["end"]`; without it, recording was interrupted, and the replay reports this.

The trace of a long run consists of several files. All but the last end with `["goes on"]`. All but the first start with
calls that declare the objects that exist at that point (`syncheck.run.trace.state`), up to `["begins"]`. A replay of a
file after its predecessor skips these calls, and so makes exactly the calls of the run. A replay of the file alone
makes
them, and then treats all earlier work as complete. The header contains the id of the run and the number of the file.

Formats 1 to 3 are still readable: they have a single file, and formats 1 and 2 have no threads. In format 1, some calls
have different names, and a launch's context is a number.
A trace of real GPUs may contain the durations of operators (`timed`, `times`); otherwise it has no times.
"""

import gzip
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import Any

from syncheck import serialization
from syncheck.errors import TraceError
from syncheck.findings import UNKNOWN, Frame, Location
from syncheck.hb.ids import Context, SiteId, StreamId
from syncheck.rules.model import Rule
from syncheck.sanitizer.monitor import Monitor, SourceLine
from syncheck.sanitizer.session import Session
from syncheck.source.scopes import scopes_of
from syncheck.source.text import source_line, source_text

FORMAT = 4
_READABLE = (1, 2, 3, 4)
BEGINS, CONTINUES, END = "begins", "goes on", "end"
"""Lines that are not calls."""
_STREAMS, _CONTEXT_AT = 4096, 4
_READ_AS = {
    "passed": "launches_elided",
    "shown": "describe_allocation",
    "made": "object_created",
    "dropped": "object_destroyed",
}
"""Names of calls in format 1 -> current names."""


class StoredSites:
    """The locations stored in a trace, and the names in their source files if these are unchanged."""

    def __init__(self) -> None:
        self.locations: dict[int, Location] = {}
        self.names: dict[int, str] = {}
        self.codes: dict[int, list[str]] = {}

    def add(self, record: Any) -> None:
        """Add a call site from a trace record; each file of a trace repeats the call sites that it uses."""
        site = int(record[1])
        if site not in self.locations:
            self.locations[site] = serialization.to_location(record[2])
            self.names[site] = str(record[3])
            self.codes[site] = [str(code) for code in record[4]] if len(record) > 4 else []

    def location(self, site: SiteId) -> Location:
        """Return the location of a call site."""
        return self.locations.get(site, UNKNOWN)

    def lines_of(self, site: SiteId) -> tuple[SourceLine, ...]:
        """Return the line of a call site and those of its callers."""
        location = self.location(site)
        frames = [frame for frame in location.stack if frame.is_user]
        return tuple(map(_line_of, frames)) or (SourceLine.of_library(location.frame),)

    def bound(self, site: SiteId) -> str:
        """Return the name bound or deleted at a call site."""
        return self.names.get(site, "")

    def ignored(self, site: SiteId, rule: Rule) -> bool:
        """Return whether the program ignored a rule at a call site."""
        return rule.code in self.ignored_codes(site)

    def ignored_codes(self, site: SiteId) -> list[str]:
        """Return the codes of all rules that the program ignored at a call site."""
        return self.codes.get(site, [])


def _line_of(frame: Frame) -> SourceLine:
    is_same = source_line(frame.path, frame.line) == frame.source != ""
    scopes = scopes_of(source_text(frame.path)) if is_same else None
    return SourceLine(frame.path, frame.line, frame.column, frame.function, scopes)


class Ending(Enum):
    """The way in which a trace file ends."""

    END = auto()
    CONTINUES = auto()
    """The trace continues in the next file."""
    CUT_OFF = auto()


class Reader:
    """Replays one trace file on a session.

    Attributes:
        number: number of the last line read, from 1.
        graphs: the captured graphs, including those of earlier files.
        has_unknown_graph: whether a graph that is not among these was replayed.

    Args:
        path: the file.
        session: receives the calls.
        sites: receives the call sites.
    """

    def __init__(self, path: Path, session: Session, sites: StoredSites, graphs: set[int]) -> None:
        self.number = 1
        self.graphs = graphs
        self.has_unknown_graph = False
        self._is_cut_off = False
        self._path = path
        self._session = session
        self._sites = sites
        self._lines = islice(_lines(path), 1, None)  # without the header

    def declare(self, *, is_known: bool) -> None:
        """Make the calls that declare the objects existing at the start of the file, or skip them if `is_known`.

        Raises:
            TraceError: the file is truncated here, or damaged.
        """
        with self._damage_named():
            for record in self._records():
                if record[0] == BEGINS:
                    return
                if not is_known:
                    self._make(record)
        raise _UnreadableError(f"{self._path}: the trace is cut off before its first call", HINT)

    def play(self) -> Ending:
        """Make all remaining calls.

        Raises:
            TraceError: the file is damaged.
        """
        ending = None
        with self._damage_named():
            for record in self._records():
                ending = _ENDINGS.get(record[0])
                if ending is None:
                    self._make(record)
        return ending if ending is not None and not self._is_cut_off else Ending.CUT_OFF

    def damaged(self, error: Exception) -> TraceError:
        """Return the error for calls that raised an exception."""
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        text = f"{self._path}: the trace is damaged, seen at record {self.number} ({reason})"
        return TraceError(text, "record the trace again")

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except _UnreadableError:
            raise
        except Exception as error:  # damaged calls can break anything
            raise self.damaged(error) from error

    def _records(self) -> Iterator[Any]:
        """Yield the remaining lines, up to the point where the file is truncated."""
        try:
            for record in self._lines:
                self.number += 1
                yield record
        except _CutOffError:
            self._is_cut_off = True

    def _make(self, record: Any) -> None:
        """Make one call."""
        kind = _READ_AS.get(record[0], record[0])
        if kind == "site":
            self._sites.add(record)
            return
        if kind not in _CALLS:
            raise ValueError(f"there is no call {kind!r}")
        keywords = record[2] if len(record) > 2 else {}
        arguments = [_frozen(argument) for argument in record[1]]
        if kind == "launch" and len(arguments) > _CONTEXT_AT:
            arguments[_CONTEXT_AT] = _context(arguments[_CONTEXT_AT])
        elif kind == "capture_begin":
            self.graphs.add(arguments[0])
        elif kind == "replay":
            self.has_unknown_graph |= arguments[0] not in self.graphs
        getattr(self._session, kind)(*arguments, **keywords)


class _UnreadableError(TraceError):
    """The file is not a trace, or its lines are not valid records."""


class NothingRecordedError(_UnreadableError):
    """The file is empty or truncated in its first line, like that of a trace that was just started."""


class _CutOffError(Exception):
    """The compressed data ends in the middle."""


def _context(written: int | tuple[int, int] | None) -> Context | None:
    """Return the context of a launch; in format 1 it is `site * 4096 + stream`, or `-stream`."""
    if not written:
        return None
    if isinstance(written, tuple):
        return Context(StreamId(written[0]), SiteId(written[1]))
    entered, stream = divmod(written, _STREAMS) if written > 0 else (0, -written)
    return Context(StreamId(stream), SiteId(entered))


_ENDINGS = {END: Ending.END, CONTINUES: Ending.CONTINUES}
_CALLS = {name for name, _ in inspect.getmembers(Monitor, inspect.isfunction) if not name.startswith("_")} | {"note"}


def _frozen(value: Any) -> Any:
    """Convert lists to tuples, as in the original calls."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _lines(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except EOFError as error:
        raise _CutOffError from error
    except (gzip.BadGzipFile, UnicodeDecodeError, json.JSONDecodeError, RecursionError, ValueError) as error:
        what = "not a trace file" if isinstance(error, gzip.BadGzipFile) else f"the trace is damaged: {error}"
        raise _UnreadableError(f"{path}: {what}", HINT) from error
    except FileNotFoundError as error:
        raise _UnreadableError(f"no such file: {str(path)!r}", HINT) from error
    except OSError as error:
        raise _UnreadableError(f"{path}: cannot be read: {error.strerror or error}", HINT) from error
    except Exception as error:
        if type(error).__module__ == "zlib":
            raise _UnreadableError(f"{path}: the trace is damaged: {error}", HINT) from error
        raise


HINT = "traces are written by `syncheck run --trace FILE`"


def read_header(path: Path) -> dict[str, Any]:
    """Return the header of a trace.

    Raises:
        TraceError: the file cannot be read, is not a trace, or has a newer format.
    """
    try:
        header = next(_lines(path), None)
    except _CutOffError as error:
        raise NothingRecordedError(f"{path}: the trace is cut off before its first line", HINT) from error
    if header is None:
        raise NothingRecordedError(f"{path}: not a trace file: it is empty", HINT)
    if not isinstance(header, dict) or "syncheck-trace" not in header:
        raise TraceError(f"{path}: not a trace file", HINT)
    if header["syncheck-trace"] not in _READABLE:
        found = header["syncheck-trace"]
        by = header.get("version", "another version")
        raise TraceError(
            f"{path}: trace format {found!r}, written by syncheck {by}",
            f"this version reads the formats {_READABLE[0]} to {_READABLE[-1]}",
        )
    return header
