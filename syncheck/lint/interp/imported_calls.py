"""Calls of functions of other files. In this file, all their effects are attributed to the call."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from syncheck.hb.ids import UNKNOWN_SITE, SiteId
from syncheck.sanitizer.collector import PendingFinding

_OF_CALLERS = ("SYN1", "SYN2", "SYN3", "SYN6", "SYN7")
"""Rules about the order of two accesses: a finding in a called function can be the caller's mistake."""


@dataclass(frozen=True, slots=True)
class ImportedCall:
    """A running call.

    Attributes:
        node: the call, in this file.
        function: the name of the function that contains it.
        depth: number of active calls of this file's functions around it.
    """

    node: ast.AST
    function: str
    depth: int


class ImportedCalls:
    """The calls of functions of other files.

    Attributes:
        running: the running call; None while code of this file runs.
        exchanged: what asynchronous collectives use in the functions and classes of other files, as written there.
    """

    def __init__(self) -> None:
        self.running: ImportedCall | None = None
        self.exchanged = set[str]()
        self._inside: set[tuple[str, SiteId]] = set()
        self._outside: set[tuple[str, SiteId]] = set()
        self._recording: set[SiteId] = set()

    @contextmanager
    def run(self, call: ImportedCall) -> Iterator[None]:
        """Mark a call as running in a block."""
        before = self.running
        self.running = before or call
        try:
            yield
        finally:
            self.running = before

    def seen_from(self, node: ast.AST, function: str) -> tuple[ast.AST, str]:
        """Return a node and its function as seen from this file: while other files run, those of the call."""
        return (node, function) if self.running is None else (self.running.node, self.running.function)

    def callers(self, calls: list[tuple[ast.AST, str]]) -> list[tuple[ast.AST, str]]:
        """Return the active calls that are in this file."""
        return calls if self.running is None else calls[: self.running.depth]

    def note(self, finding: PendingFinding, site: SiteId) -> None:
        """Record a finding that was made at a site, if a call is running."""
        if self.running is None:
            return
        key = finding.rule.code, finding.site
        elsewhere = {finding.site, *(other for other, _ in finding.related)} - {site, UNKNOWN_SITE}
        is_callers = bool(elsewhere) and finding.rule.code.startswith(_OF_CALLERS)
        (self._outside if is_callers else self._inside).add(key)

    def note_record(self, site: SiteId) -> None:
        """Record that an event is recorded. A timer of another file that does so does not rely on its clock alone."""
        if self.running is not None:
            self._recording.add(site)

    def leave_out(self, keys: set[tuple[str, SiteId]]) -> None:
        """Exclude some findings, given as (rule code, call site)."""
        self._inside |= keys
        self._outside -= keys

    def of_other_files(self) -> set[tuple[str, SiteId]]:
        """Return the findings that concern nothing in this file, as (rule code, call site)."""
        return (self._inside - self._outside) | {("SYN701", site) for site in self._recording}
