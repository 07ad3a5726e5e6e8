"""Recording of the calls of a run in files that can each be replayed separately: see `syncheck.run.trace.codec`."""

import inspect
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from syncheck import serialization
from syncheck.hb.ids import Context, SiteId
from syncheck.run.trace import parts
from syncheck.run.trace.codec import BEGINS, CONTINUES, END, FORMAT
from syncheck.run.trace.file import TraceFile
from syncheck.run.trace.state import LiveState
from syncheck.sanitizer.monitor import Monitor, Sites
from syncheck.sanitizer.session import Session
from syncheck.version import __version__

_QUESTIONS = frozenset(
    "holds_used_memory is_ordered_after_all is_pending capturing report collector n_operators warm_operators".split()
)  # attributes that change nothing
_FIRST_OF_SEVERAL = frozenset("launch launches_elided allocate free event record host_access sync_stream".split())
"""Calls before which a new file may begin, as no earlier call needs them in its own file; all programs make some."""
_WITH_SITE = frozenset(
    name
    for name, call in inspect.getmembers(Monitor, inspect.isfunction)
    if "site" in inspect.signature(call).parameters
)


_LIMIT = 64 << 20


class TraceWriter:
    """A monitor that records each call and forwards it.

    Args:
        session: the monitor that checks.
        path: the first file to write; later files are beside it. The files of an earlier trace are removed.
        sites: converts call sites to locations, which are stored in the trace.
        backend: description of the GPUs.
        limit: size of a file in bytes at which the next one is started.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, session: Session, path: Path, sites: Sites, backend: str, limit: int = _LIMIT) -> None:
        self._session = session
        self._path = path
        self._sites = sites
        self._backend = backend
        self._known: set[SiteId] = set()  # call sites in the current file
        self._state = LiveState(session)
        self._recording = secrets.token_hex(8)
        self._number = 1
        parts.remove_others(path)
        self._file = TraceFile(path)
        self._limit = self._full_at = limit
        self._write_header()
        self._file.flush()

    def _write(self, record: object) -> None:
        self._file.write(json.dumps(record, separators=(",", ":")))

    def _write_header(self) -> None:
        trace = {"recording": self._recording, "number": self._number}
        self._write({"syncheck-trace": FORMAT, "version": __version__, "backend": self._backend, "part": trace})

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._session, name)
        recorded = method if name in _QUESTIONS else self._recorded(name, method)
        setattr(self, name, recorded)
        return recorded

    def _recorded(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        site_at = list(inspect.signature(method).parameters).index("site") if name in _WITH_SITE else -1
        file, state, follow = self._file, self._state, self._state.follower(name)
        is_first = name in _FIRST_OF_SEVERAL

        def call(*args: Any, **kwargs: Any) -> Any:
            if is_first and file.n_bytes >= self._full_at and not state.is_capturing:
                self._begin_next()
            self._write_call(name, args, kwargs, site_at)
            result = method(*args, **kwargs)
            if follow is not None:
                follow((name, args, kwargs), result)
            return result

        return call

    def _write_call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], site_at: int) -> None:
        if site_at >= 0:
            self._store_site(args[site_at])
        for argument in args:
            if isinstance(argument, Context):
                self._store_site(argument.entered)
        self._write([name, args, kwargs] if kwargs else [name, args])

    def _store_site(self, site: SiteId) -> None:
        if site and site not in self._known:
            self._known.add(site)
            location = serialization.of_location(self._sites.location(site))
            ignored = self._sites.ignored_codes(site)
            self._write(["site", site, location, self._sites.bound(site), *([ignored] if ignored else [])])

    def _begin_next(self) -> None:
        """End the file, and start the next one with the objects that exist now."""
        self._write([CONTINUES])
        self._number += 1
        self._known.clear()
        self._file.follow(parts.path_of(self._path, self._number))
        self._write_header()
        for call in self._state.calls():
            self._write_call(*call, _site_at(call[0]))
        self._write([BEGINS])
        self._file.flush()
        self._full_at = max(
            self._limit, 2 * self._file.n_bytes
        )  # otherwise a file might contain almost only declarations

    def close(self) -> None:
        """Finish the file.

        Raises:
            OSError: something could not be written.
        """
        self._write([END])
        self._file.close()


def _site_at(name: str) -> int:
    """Return the index of a call's `site` argument; -1 if there is none."""
    parameters = list(inspect.signature(getattr(Monitor, name)).parameters)
    return parameters.index("site") - 1 if "site" in parameters else -1
