"""Accesses by host threads to memory that streams also use; the stream's work may come from another thread."""

from collections.abc import Iterator
from typing import TypeAlias

from syncheck.hb.cells import AccessRecord
from syncheck.hb.footprint import Footprint, overlap
from syncheck.hb.hosts import Hosts, Moment
from syncheck.hb.ids import HostId

HostUse: TypeAlias = tuple[HostId, Moment, int, Footprint, bool]
"""(thread, when, label, bytes, whether it is a write)."""

_MAX = 256
"""The most accesses kept per allocation; the oldest are dropped."""


class HostUses:
    """All threads' accesses to one allocation: the last read and the last write per thread and footprint."""

    def __init__(self) -> None:
        self._latest: dict[tuple[HostId, Footprint, bool], tuple[Moment, int]] = {}

    def add(self, hosts: Hosts, label: int, footprint: Footprint, *, is_write: bool) -> None:
        """Add an access by the current thread."""
        key = (hosts.ident, footprint, is_write)
        self._latest.pop(key, None)
        self._latest[key] = (hosts.step(), label)
        if len(self._latest) > _MAX:
            del self._latest[next(iter(self._latest))]

    def conflicts(self, hosts: Hosts, current: AccessRecord) -> Iterator[HostUse]:
        """Yield the conflicting accesses that the current thread does not come after.

        Two accesses conflict if they overlap and at least one is a write.
        """
        for (host, footprint, is_write), (moment, label) in self._latest.items():
            is_conflict = is_write or current.is_write
            if is_conflict and not hosts.follows(host, moment) and overlap(footprint, current.footprint):
                yield host, moment, label, footprint, is_write
