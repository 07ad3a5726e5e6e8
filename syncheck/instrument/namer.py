"""Gives the monitor the program's names of its things, while its frames are alive."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch

from syncheck.hb.ids import AllocationId, NamedKind, SiteId
from syncheck.instrument.naming import counted_name, name_of_tensor
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.monitor import Monitor
from syncheck.source.frames import frame_at


class CallSites(Protocol):
    """A table of call sites."""

    def bound_directly(self, ident: SiteId) -> str:
        """Return the name that the program binds what it makes itself at a call site to; "" if none."""
        ...


class Namer:
    """Names streams and events where they are made, and tensors where a finding is made of them.

    Args:
        monitor: returns the monitor, which gets the names.
        sites: knows what is bound at a call site.
        allocation_of: the allocation of a tensor; 0 if it has none.
        after_finding: called after new findings.
    """

    def __init__(
        self,
        monitor: Callable[[], Monitor],
        sites: CallSites,
        allocation_of: Callable[[torch.Tensor], AllocationId],
        after_finding: Callable[[], None],
    ) -> None:
        self._monitor = monitor
        self._sites = sites
        self._allocation_of = allocation_of
        self._after_finding = after_finding
        self._made_at: dict[SiteId, int] = {}  # call site in a comprehension -> number of the last thing made there

    def name_new(self, kind: NamedKind, ident: int, site: SiteId) -> None:
        """Give a new object the name that the program binds it to."""
        name = self._sites.bound_directly(site)
        if name.endswith("[...]"):  # made in a comprehension: count
            number = self._made_at[site] = self._made_at.get(site, -1) + 1
            name = counted_name(name, number)
        if name:
            self._monitor().name(kind, ident, name)

    def name_tensors(self, findings: list[PendingFinding]) -> None:
        """Name the tensors of new findings."""
        frame = frame_at(1)
        for allocation in {finding.allocation for finding in findings if finding.allocation}:
            name = name_of_tensor(frame, partial(self._is, allocation))
            if name:
                self._monitor().name(NamedKind.ALLOCATION, allocation, name)
        if any(finding.superseded is None for finding in findings):
            self._after_finding()

    def _is(self, allocation: AllocationId, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and self._allocation_of(value) == allocation
