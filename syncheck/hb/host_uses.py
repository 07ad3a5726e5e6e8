"""What the host's threads have done with memory that streams use, too: their work may come from another thread."""

from collections.abc import Iterator
from typing import TypeAlias

from syncheck.hb.footprint import Footprint, overlap
from syncheck.hb.hosts import Hosts, Moment
from syncheck.hb.ids import HostId
from syncheck.hb.memory import AccessRecord

HostUse: TypeAlias = tuple[HostId, Moment, int, Footprint, bool]
"""(thread, when, label, bytes, whether it is a write)."""

_MOST = 256
"""Accesses that are kept of one allocation, the latest."""


class HostUses:
    """The accesses of all threads to one allocation: of each thread and footprint, the last read and the last write."""

    def __init__(self) -> None:
        self._latest: dict[tuple[HostId, Footprint, bool], tuple[Moment, int]] = {}

    def add(self, hosts: Hosts, label: int, footprint: Footprint, *, is_write: bool) -> None:
        """Remember an access by the current thread."""
        key = (hosts.ident, footprint, is_write)
        self._latest.pop(key, None)
        self._latest[key] = (hosts.step(), label)
        if len(self._latest) > _MOST:
            del self._latest[next(iter(self._latest))]

    def conflicts(self, hosts: Hosts, current: AccessRecord) -> Iterator[HostUse]:
        """Yield the accesses to bytes of another one, one of both a write, that the current thread is not after."""
        for (host, footprint, is_write), (moment, label) in self._latest.items():
            is_conflict = is_write or current.is_write
            if is_conflict and not hosts.follows(host, moment) and overlap(footprint, current.footprint):
                yield host, moment, label, footprint, is_write
