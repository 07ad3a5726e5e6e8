"""Tells the monitor what the program calls its things, while its frames are alive."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch

from syncheck.instrument.naming import counted_name, name_of_tensor
from syncheck.sanitizer.monitor import Ids, Monitor


class CallSites(Protocol):
    """A table of call sites."""

    def bound_directly(self, ident: int) -> str:
        """Return the name that the program binds what it makes itself at a call site to; "" if none."""
        ...


class Namer:
    """Names streams and events where they are made, and tensors where a finding is made of them.

    Args:
        monitor: gets the names.
        sites: knows what is bound at a call site.
        allocation_of: the allocation of a tensor; 0 if it has none.
        after_finding: called after each new finding.
    """

    def __init__(
        self,
        monitor: Callable[[], Monitor],
        sites: CallSites,
        allocation_of: Callable[[torch.Tensor], int],
        after_finding: Callable[[], None],
    ) -> None:
        self._monitor = monitor
        self._sites = sites
        self._allocation_of = allocation_of
        self._after_finding = after_finding
        self._made_at: dict[int, int] = {}  # call site in a comprehension -> number of the last thing made there

    def name_new(self, kind: str, ident: int, site: int) -> None:
        """Give a new object the name that the program binds it to."""
        name = self._sites.bound_directly(site)
        if name.endswith("[...]"):  # made in a comprehension: count
            turn = self._made_at[site] = self._made_at.get(site, -1) + 1
            name = counted_name(name, turn)
        if name:
            self._monitor().name(kind, ident, name)

    def after_call(self, named: Ids) -> None:
        """After a call that may have completed a finding: name its tensors."""
        if not named:
            return
        for allocation in named:
            frame = sys._getframe(1)  # noqa: SLF001  the caller's frame
            name = name_of_tensor(frame, partial(self._is, allocation))
            if name:
                self._monitor().name("allocation", allocation, name)
        self._after_finding()

    def _is(self, allocation: int, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and self._allocation_of(value) == allocation
