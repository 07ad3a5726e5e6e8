"""Records what a run under a schedule computes, where it can be compared with another one."""

import math
from collections import defaultdict

import torch

from syncheck.hb.ids import SiteId
from syncheck.instrument.values import Observed, values_of
from syncheck.sim.kept_storages import Operand
from syncheck.sim.memory import Memory
from syncheck.sim.virtual_gpus import CallSites
from syncheck.witness.record import Request
from syncheck.witness.schedule import LaunchId


class Observations(Observed):
    """What is seen in one run.

    Args:
        request: what is to be recorded.
        sites: the program's call sites.
    """

    def __init__(self, request: Request | None, sites: CallSites) -> None:
        super().__init__(request, sites)
        pairs = request.pairs if request is not None else ()
        self.watched = frozenset(launch for pair in pairs for launch in pair if launch.stream)
        self._partners: dict[LaunchId, set[LaunchId]] = defaultdict(set)
        for pair in pairs:
            self._partners[pair.earlier].add(pair.later)
            self._partners[pair.later].add(pair.earlier)
        self._written: dict[LaunchId, list[Operand]] = {}

    def submitted(self, launch: LaunchId, site: SiteId) -> None:
        """A launch was submitted."""
        if launch in self.watched:
            self.record.places[str(launch)] = self.place(site)

    def reads(self, launch: LaunchId, tensors: list[torch.Tensor]) -> None:
        """A launch of interest is about to read tensors."""
        self.record.read[str(launch)] = [values_of(tensor) for tensor in tensors]

    def wrote(self, launch: LaunchId, operands: list[Operand]) -> None:
        """A launch of interest has run; `operands` are what it has written, to be kept for as long as this is."""
        self._written[launch] = operands
        self.record.order.append(str(launch))
        for other in sorted(self._partners[launch]):
            if other in self._written or not other.stream:
                for one in (launch, other):
                    self.record.left[str(one)] = [values_of(each.tensor()) for each in self._written.get(one, ())]

    def end(self, memory: Memory) -> None:
        """The program has ended: look at all memory, and write the record."""
        if self.request is None:
            return
        for tag, storage in memory.live():
            whole = torch.uint8, (storage.nbytes(),), (1,)
            dtype, size, stride = tag.layout or whole  # what came late may lie in another order than what did not
            if storage.nbytes() >= math.prod(size) * dtype.itemsize > 0:
                tensor = torch.empty(0, dtype=dtype).set_(storage, 0, size, stride)
                self.record.final.append(values_of(tensor, self.place(tag.site)))
        self.record.has_ended = True
        self.record.write(self.request.file)
