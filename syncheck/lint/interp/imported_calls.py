"""Calls of functions of other files: all that happens in one happens, for this file, at its call."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from syncheck.hb.ids import UNKNOWN_SITE, SiteId
from syncheck.sanitizer.collector import PendingFinding

_OF_CALLERS = ("SYN1", "SYN2", "SYN3", "SYN6", "SYN7")
"""Rules of which a finding in a function can be its caller's mistake: about the order of two accesses."""


@dataclass(frozen=True, slots=True)
class ImportedCall:
    """A call that runs.

    Attributes:
        node: the call, in this file.
        function: the name of the function that it stands in.
        depth: how many calls of this file's functions are around it.
    """

    node: ast.AST
    function: str
    depth: int


class ImportedCalls:
    """The calls of functions of other files.

    Attributes:
        running: the one that runs; None while all that runs is in this file.
    """

    def __init__(self) -> None:
        self.running: ImportedCall | None = None
        self._inside: set[tuple[str, SiteId]] = set()
        self._outside: set[tuple[str, SiteId]] = set()

    @contextmanager
    def run(self, call: ImportedCall) -> Iterator[None]:
        """Run a call in a block."""
        self.running = call
        try:
            yield
        finally:
            self.running = None

    def seen_from(self, node: ast.AST, function: str) -> tuple[ast.AST, str]:
        """Return what this file sees of a node that runs in a function: of one in another file, the call."""
        return (node, function) if self.running is None else (self.running.node, self.running.function)

    def callers(self, calls: list[tuple[ast.AST, str]]) -> list[tuple[ast.AST, str]]:
        """Return those of the calls around what runs that are in this file."""
        return calls if self.running is None else calls[: self.running.depth]

    def note(self, finding: PendingFinding, site: SiteId) -> None:
        """Note a finding at a site, if a call runs."""
        if self.running is None:
            return
        key = finding.rule.code, finding.site
        elsewhere = {finding.site, *(other for other, _ in finding.related)} - {site, UNKNOWN_SITE}
        is_callers = bool(elsewhere) and finding.rule.code.startswith(_OF_CALLERS)
        (self._outside if is_callers else self._inside).add(key)

    def leave_out(self, keys: set[tuple[str, SiteId]]) -> None:
        """Leave some findings out, by the code of their rule and their call site."""
        self._inside |= keys
        self._outside -= keys

    def of_other_files(self) -> set[tuple[str, SiteId]]:
        """Return the findings that are about nothing in this file, by the code of their rule and their call site."""
        return self._inside - self._outside
