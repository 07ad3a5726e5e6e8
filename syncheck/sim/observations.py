"""Recording of the values that a run under a schedule computes, for comparison with another run."""

import math
from collections import defaultdict

import torch

from syncheck.hb.ids import SiteId
from syncheck.instrument.values import Observed, values_of
from syncheck.sim.memory import Memory
from syncheck.sim.retained_storages import Operand
from syncheck.sim.virtual_gpus import CallSites
from syncheck.witness.record import Request
from syncheck.witness.schedule import LaunchId


class Observations(Observed):
    """Values recorded in one run.

    Args:
        request: specifies what to record.
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
        """Record the call site of a watched launch at its submission."""
        if launch in self.watched:
            self.record.places[str(launch)] = self.location(site)

    def reads(self, launch: LaunchId, tensors: list[torch.Tensor]) -> None:
        """Record the values of the tensors that a watched launch is about to read."""
        self.record.read[str(launch)] = [values_of(tensor) for tensor in tensors]

    def wrote(self, launch: LaunchId, operands: list[Operand]) -> None:
        """Record the results of a watched launch after it has run. `operands` stay alive as long as this object."""
        self._written[launch] = operands
        self.record.order.append(str(launch))
        for other in sorted(self._partners[launch]):
            if other in self._written or not other.stream:
                for one in (launch, other):
                    self.record.left[str(one)] = [values_of(each.tensor()) for each in self._written.get(one, ())]

    def end(self, memory: Memory) -> None:
        """Record the contents of all memory at the end of the program, and write the record."""
        if self.request is None:
            return
        for tag, storage in memory.live():
            whole = torch.uint8, (storage.nbytes(),), (1,)
            dtype, size, stride = tag.layout or whole  # a delayed operator's result may have different strides
            if storage.nbytes() >= math.prod(size) * dtype.itemsize > 0:
                tensor = torch.empty(0, dtype=dtype).set_(storage, 0, size, stride)
                self.record.final.append(values_of(tensor, self.location(tag.site)))
        self.record.has_ended = True
        self.record.write(self.request.file)
