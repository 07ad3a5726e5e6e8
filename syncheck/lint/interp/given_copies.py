"""Copies to the host that are passed to unknown code while they are in flight.

Such code may wait, or keep the copy for later. If it gets nothing to wait for, and nothing waits or records an event
until the end of the path, it reads what is not there yet.
"""

import ast

from syncheck.hb.ids import Access, AllocationId, SiteId, StreamId
from syncheck.lint.interp.contents import is_plain
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.unknown import called_name, makes_object, may_wait, takes_code
from syncheck.lint.interp.values import Tensor, Value
from syncheck.source.words import words_of

_KEEPING = frozenset(
    """append add put push extend insert enqueue submit store stash cache keep hold update set register queue schedule
    async later collect pack wrap stage print stack cat len zip offload copy to pin is return yield id defer
    reshape view is_pinned""".split()
)
"""Words in the names of functions that keep their arguments for later, or that only describe them."""

_RECORDING = frozenset({"record", "record_event"})


class GivenCopies:
    """The copies to the host that unknown code got on one path.

    Args:
        machine: the streams and memory.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._streams: dict[AllocationId, StreamId] = {}
        self._given: list[tuple[SiteId, list[Access], Tensor, StreamId]] = []

    def made(self, copy: Tensor, stream: StreamId) -> None:
        """Record a non-blocking copy to the host and the stream that it runs on."""
        if copy.block.ident and stream:
            self._streams[copy.block.ident] = stream

    def give(self, given: list[Value], node: ast.AST) -> None:
        """Record the copies that unknown code gets as arguments."""
        if not self._streams:  # nothing was copied
            return
        machine = self._machine
        if called_name(node) in _RECORDING:
            self._given.clear()
        copies = [value for value in given if isinstance(value, Tensor) and value.block.ident in self._streams]
        if not copies or machine.ordering_only or not _reads_immediately(given, node):
            return
        for copy in copies:
            if copy.array is None and (accesses := machine.accesses([(copy, False)])):
                self._given.append((machine.site(node), accesses, copy, self._streams[copy.block.ident]))

    def ended(self) -> None:
        """Report, at the end of a path, what is still in flight and has no event that something could wait for."""
        machine = self._machine
        for site, accesses, copy, stream in self._given:
            if not machine.joins.is_recorded_after(stream, copy):
                machine.session.host_access("unknown code", accesses, site, escape=True)
        machine.session.ended()


def _reads_immediately(given: list[Value], node: ast.AST) -> bool:
    """Return whether a function is assumed to read its arguments immediately, judging by its name and arguments."""
    name = called_name(node)
    if not name or makes_object(node) or may_wait(name) or words_of(name) & _KEEPING or takes_code(given, node):
        return False
    return all(map(is_plain, given))
