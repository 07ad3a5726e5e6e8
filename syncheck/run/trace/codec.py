"""Trace files: gzip-compressed JSON lines, one call of `Monitor` each, after a header line.

A call is `[name, [argument, ...], {keyword: value}]`; the call sites that it names come before it as
`["site", id, place, bound name]`, with the rules that the program ignores there, if it does, at the end. The last line
is `["end"]`: without it the program was cut off, and the replay says so.

Formats 1 and 2 are still read: they know no threads. In format 1 some calls have other names, and a launch's context
is a number.
A trace of real GPUs may say how long operators took (`timed`, `times`): without these it is a trace without times.
"""

import gzip
import inspect
import json
import linecache
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from syncheck import serialization
from syncheck.errors import TraceError
from syncheck.findings import UNKNOWN, Frame, Place, Report
from syncheck.hb.ids import Context, SiteId, StreamId
from syncheck.rules.model import Rule
from syncheck.run.trace.file import TraceFile
from syncheck.sanitizer.monitor import Monitor, Sites, SourceLine
from syncheck.sanitizer.session import Session
from syncheck.source.scopes import scopes_of
from syncheck.version import __version__

FORMAT = 3
_READABLE = (1, 2, 3)
_QUESTIONS = frozenset({"holds_used_memory", "is_pending", "capturing", "report"})  # calls that change nothing
_STREAMS, _CONTEXT_AT = 4096, 4
_WITH_SITE = frozenset(
    name
    for name, call in inspect.getmembers(Monitor, inspect.isfunction)
    if "site" in inspect.signature(call).parameters
)
_READ_AS = {
    "passed": "launches_elided",
    "shown": "describe_allocation",
    "made": "object_created",
    "dropped": "object_destroyed",
}
"""The names that some calls have in format 1."""


class TraceWriter:
    """A monitor that writes each call down and passes it on.

    Args:
        session: the monitor that checks.
        path: the file to write.
        sites: converts call sites to places, which are stored with the trace.
        backend: how the GPUs were provided, in words.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, session: Session, path: Path, sites: Sites, backend: str) -> None:
        self._session = session
        self._sites = sites
        self._known: set[SiteId] = set()
        self._file = TraceFile(path)
        self._write({"syncheck-trace": FORMAT, "version": __version__, "backend": backend})
        self._file.flush()

    def _write(self, record: object) -> None:
        self._file.write(json.dumps(record, separators=(",", ":")))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._session, name)
        recorded = method if name in _QUESTIONS else self._recorded(name, method)
        setattr(self, name, recorded)
        return recorded

    def _recorded(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        site_at = list(inspect.signature(method).parameters).index("site") if name in _WITH_SITE else -1

        def call(*args: Any, **kwargs: Any) -> Any:
            if site_at >= 0:
                self._store_site(args[site_at])
            for argument in args:
                if isinstance(argument, Context):
                    self._store_site(argument.entered)
            self._write([name, args, kwargs] if kwargs else [name, args])
            return method(*args, **kwargs)

        return call

    def _store_site(self, site: SiteId) -> None:
        if site and site not in self._known:
            self._known.add(site)
            place = serialization.of_place(self._sites.place(site))
            ignored = self._sites.ignored_codes(site)
            self._write(["site", site, place, self._sites.bound(site), *([ignored] if ignored else [])])

    def close(self) -> None:
        """Finish the file.

        Raises:
            OSError: something could not be written.
        """
        self._write(["end"])
        self._file.close()


class StoredSites:
    """The places that a trace brings along; where the files themselves are as they were, their names too."""

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self.names: dict[int, str] = {}
        self.codes: dict[int, list[str]] = {}

    def place(self, site: SiteId) -> Place:
        """Return the place of a call site."""
        return self.places.get(site, UNKNOWN)

    def lines_of(self, site: SiteId) -> tuple[SourceLine, ...]:
        """Return the line of a call site and those of its callers."""
        place = self.place(site)
        frames = [frame for frame in place.stack if frame.is_user]
        return tuple(map(_line_of, frames)) or (SourceLine.of_library(place.frame),)

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
    is_same = linecache.getline(frame.path, frame.line).rstrip("\r\n") == frame.source != ""
    scopes = scopes_of("".join(linecache.getlines(frame.path))) if is_same else None
    return SourceLine(frame.path, frame.line, frame.column, frame.function, scopes)


def replay(path: Path, make_session: Callable[[str], Session], sites: StoredSites | None = None) -> Report:
    """Make the calls of a trace on a new session, which `make_session` makes from the backend's description.

    Args:
        path: the trace.
        make_session: makes it; it may pass the calls on to one.
        sites: gets the call sites.

    Raises:
        TraceError: the file cannot be read, is no trace, is damaged, or is of a newer format.
        ConfigError: from `make_session`.
    """
    lines = _lines(path)
    try:
        header = _header(path, next(lines, None))
    except _CutOffError as error:
        raise _UnreadableError(f"{path}: the trace is cut off before its first line", _HINT) from error
    session = make_session(f"a trace of {header.get('backend', 'unknown GPUs')}")
    sites = sites if sites is not None else StoredSites()
    is_whole = False
    number = 1  # of the line that was read last
    try:
        for record in lines:
            number += 1
            is_whole = _apply(record, session, sites)
    except _CutOffError:
        is_whole = False
    except _UnreadableError:
        raise
    except Exception as error:  # damaged calls can break anything
        raise _damaged(path, number, error) from error
    if not is_whole:
        session.incomplete(f"the trace ends early, after record {number}: the program was cut off while recording")
    try:
        return session.report(sites)
    except Exception as error:  # as above: names and places are put together here
        raise _damaged(path, number, error) from error


def _damaged(path: Path, number: int, error: Exception) -> TraceError:
    reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    return TraceError(f"{path}: the trace is damaged, seen at record {number} ({reason})", "record the trace again")


class _UnreadableError(TraceError):
    """The file is no trace, or its lines are none."""


class _CutOffError(Exception):
    """The compressed data ends in the middle."""


def _apply(record: Any, session: Session, sites: StoredSites) -> bool:
    """Make one call; return whether it was the end mark."""
    kind = _READ_AS.get(record[0], record[0])
    if kind == "end":
        return True
    if kind == "site":
        sites.places[int(record[1])] = serialization.to_place(record[2])
        sites.names[int(record[1])] = str(record[3])
        sites.codes[int(record[1])] = [str(code) for code in record[4]] if len(record) > 4 else []
        return False
    if kind not in _CALLS:
        raise ValueError(f"there is no call {kind!r}")
    keywords = record[2] if len(record) > 2 else {}
    arguments = [_frozen(argument) for argument in record[1]]
    if kind == "launch" and len(arguments) > _CONTEXT_AT:
        arguments[_CONTEXT_AT] = _context(arguments[_CONTEXT_AT])
    getattr(session, kind)(*arguments, **keywords)
    return False


def _context(written: int | tuple[int, int] | None) -> Context | None:
    """Return the context of a launch; in format 1 it is `site * 4096 + stream`, or `-stream`."""
    if not written:
        return None
    if isinstance(written, tuple):
        return Context(StreamId(written[0]), SiteId(written[1]))
    entered, stream = divmod(written, _STREAMS) if written > 0 else (0, -written)
    return Context(StreamId(stream), SiteId(entered))


_CALLS = {name for name, _ in inspect.getmembers(Monitor, inspect.isfunction) if not name.startswith("_")} | {"note"}


def _frozen(value: Any) -> Any:
    """Return lists as tuples, as the calls were made."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _lines(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except EOFError as error:
        raise _CutOffError from error
    except (gzip.BadGzipFile, UnicodeDecodeError, json.JSONDecodeError, RecursionError, ValueError) as error:
        raise _UnreadableError(f"{path}: this is not a syncheck trace, or it is damaged: {error}", _HINT) from error
    except OSError as error:
        raise _UnreadableError(f"{path}: cannot be read: {error.strerror or error}", _HINT) from error
    except Exception as error:
        if type(error).__module__ == "zlib":
            raise _UnreadableError(f"{path}: the trace is damaged: {error}", _HINT) from error
        raise


_HINT = "traces are written by `syncheck run --trace FILE`"


def _header(path: Path, header: Any) -> dict[str, Any]:
    if not isinstance(header, dict) or "syncheck-trace" not in header:
        raise TraceError(f"{path}: this is not a syncheck trace", _HINT)
    if header["syncheck-trace"] not in _READABLE:
        found = header["syncheck-trace"]
        by = header.get("version", "another version")
        raise TraceError(
            f"{path}: trace format {found!r}, written by syncheck {by}",
            f"this version reads the formats {_READABLE[0]} to {_READABLE[-1]}",
        )
    return header
