"""Records the values that a program computes on real GPUs, for comparison with another run of the program."""

import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from syncheck.cuda.delayed_calls import Running, is_plain
from syncheck.cuda.injected_work import InjectedWork
from syncheck.cuda.launch_counts import LaunchCounts
from syncheck.cuda.memory import Memory
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import SiteId, StreamId
from syncheck.instrument.living_tensors import living_tensors
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.torch_internals import functorch, storage_key_of
from syncheck.instrument.values import Observed, values_of
from syncheck.witness.record import Request, Values
from syncheck.witness.schedule import LaunchId

_MAX_BYTES = 1 << 30
"""The most bytes of the program's tensors that are compared at its end, smallest tensors first."""


class Kept(NamedTuple):
    """A reference to a tensor whose memory the program may free."""

    storage: "weakref.ref[torch.UntypedStorage]"
    dtype: torch.dtype
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Kept":
        """Return a reference to a tensor."""
        storage = weakref.ref(tensor.untyped_storage())
        return cls(storage, tensor.dtype, int(tensor.storage_offset()), tensor.shape, tensor.stride())

    def tensor(self) -> torch.Tensor | None:
        """Return the tensor; None if its memory was freed."""
        storage = self.storage()
        if storage is None:
            return None
        return torch.empty(0, dtype=self.dtype, device=storage.device).set_(
            storage, self.offset, self.shape, self.stride
        )


class Observations(Observed):
    """Observations of one run.

    Args:
        request: what to record; None to record nothing.
        sites: the program's call sites.
        streams: maps streams to handles.
        work: copies values, and measures when launches are complete.
    """

    def __init__(self, request: Request | None, sites: SiteTable, streams: Streams, work: InjectedWork) -> None:
        super().__init__(request, sites)
        self._streams = streams
        self._work = work
        self._pairs = request.pairs if request is not None else ()
        self._awaited = {launch for pair in self._pairs for launch in pair if launch.stream}
        self._reads: dict[LaunchId, list[torch.Tensor]] = {}
        self._wrote: dict[LaunchId, list[Kept]] = {}
        self._ends: dict[LaunchId, tuple[int, int]] = {}  # launch -> device, and the event at the launch's end
        self._began = time.monotonic()
        self._has_finished = False

    def now(self) -> float:
        """Return the time since the start in seconds."""
        return time.monotonic() - self._began

    def failed(self, error: Exception) -> None:
        """Record that syncheck itself failed: later records prove nothing."""
        self.record.failed = f"{type(error).__name__}: {error}"

    # -- launches

    def is_watched(self, launch: LaunchId) -> bool:
        """Return whether a launch is to be observed and has not been seen yet."""
        return launch in self._awaited

    def skip(self, counts: LaunchCounts) -> None:
        """Stop waiting for launches that have been made, but not by an operator."""
        self._awaited.difference_update(self.arrived(counts))

    def arrived(self, counts: LaunchCounts) -> list[LaunchId]:
        """Return the awaited launches that have been made by now."""
        return sorted(launch for launch in tuple(self._awaited) if counts.has_launched(launch))

    def launched(self, launch: LaunchId, running: Running, written: list[torch.Tensor], site: SiteId) -> None:
        """Record a launch of interest that an operator made.

        Args:
            launch: the launch.
            running: the operator.
            written: the tensors that it wrote.
            site: its call site.
        """
        self._awaited.discard(launch)
        name, stream = str(launch), StreamId(launch.stream)
        first = LaunchId(launch.stream, running.before[stream] + 1)
        record = self.record
        record.starts[name], record.places[name] = str(first), self.location(site)
        record.submitted[name] = running.submitted
        if stream != running.stream or running.call.is_collective:
            record.issuers[name] = str(LaunchId(running.stream, running.before[running.stream] + 1))
        self._reads[launch] = running.reads
        self._wrote[launch] = [Kept.of(tensor) for tensor in written]
        device = self._streams.device_of(stream)
        end = self._work.events.make(device)
        if self._work.events.record(end, device, self._streams.handle_of(stream)):
            self._ends[launch] = device, end
        self._note_left(launch)

    def _note_left(self, launch: LaunchId) -> None:
        """Record the memory contents of both accesses of a race, once both were made, if the memory still exists."""
        for pair in self._pairs:
            if launch in pair and all(one in self._wrote for one in pair):
                self._work.synchronize()
                for one in pair:
                    self.record.left[str(one)] = list(self._values(self._wrote.get(one, [])))

    def _values(self, kept: list[Kept]) -> Iterator[Values]:
        for one in kept:
            with self._work.hidden():
                tensor = one.tensor()
            if tensor is not None:
                yield values_of(self._work.on_host(tensor))

    # -- the end

    def finish(self, memory: Memory, counts: LaunchCounts, lock: AbstractContextManager[Any]) -> None:
        """Record the state at the end of the program, and write the record."""
        if self.request is None or self._has_finished:
            return
        self._has_finished = True
        with lock:
            self._work.synchronize()
            self._order()
            for launch, copies in self._reads.items():
                self.record.read[str(launch)] = [values_of(self._work.on_host(copy)) for copy in copies]
            self.record.final += self._final(memory, counts)
            self.record.has_ended = True
            self.record.write(self.request.file)

    def _order(self) -> None:
        """Record the order in which the observed launches completed, if a single clock determines it."""
        ends = sorted(self._ends.items())
        if not ends or len({device for _, (device, _) in ends}) > 1:
            return
        _, base = ends[0][1]
        times = {launch: self._work.events.nanoseconds(base, end) for launch, (_, end) in ends}
        known = {launch: at for launch, at in times.items() if at is not None}
        self.record.order = [str(launch) for launch in sorted(known, key=lambda launch: known[launch])]

    def _final(self, memory: Memory, counts: LaunchCounts) -> list[Values]:
        """Return the values of all GPU tensors that the program still holds, in the order of their allocation."""
        found: dict[int, torch.Tensor] = {}
        for tensor in living_tensors():
            if tensor.is_cuda and is_plain(tensor) and not functorch.is_functorch_wrapped_tensor(tensor):
                key = storage_key_of(tensor)
                found[key] = max(found.get(key, tensor), tensor, key=_extent)
        known = {memory.allocation_of(tensor): tensor for tensor in found.values()}
        sizes = sorted((tensor.nbytes, ident) for ident, tensor in known.items() if ident in counts.allocated)
        sums = accumulate(size for size, _ in sizes)
        chosen = sorted(ident for (_, ident), total in zip(sizes, sums, strict=True) if total <= _MAX_BYTES)
        return [
            values_of(self._work.on_host(known[ident]), self.location(counts.allocated[ident][1])) for ident in chosen
        ]


def _extent(tensor: torch.Tensor) -> tuple[int, int, str, tuple[int, ...], tuple[int, ...]]:
    """Return the sort key that picks one view per storage: the largest, independent of the order of the views."""
    return tensor.nbytes, -int(tensor.storage_offset()), str(tensor.dtype), tuple(tensor.shape), tensor.stride()
