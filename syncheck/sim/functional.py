"""Functional collectives: each returns new tensors, and `wait_tensor` makes the current stream wait for them.

Source:
    torch/csrc/distributed/c10d/Functional.cpp.
"""

from typing import Any, Protocol

import torch

from syncheck.findings import Location
from syncheck.hb.ids import BY_TORCH, UNKNOWN_SITE, AllocationId, SiteId, StreamId
from syncheck.instrument.collectives import issue
from syncheck.instrument.plan import tensors_in
from syncheck.instrument.torch_internals import schema_of, tensor_owners
from syncheck.ranks import watchdog
from syncheck.semantics.collectives import collective_name
from syncheck.sim.collective_arguments import wait_for_gloo
from syncheck.sim.launches import Launches
from syncheck.sim.nccl_groups import NcclGroups
from syncheck.sim.runtime import Runtime
from syncheck.sim.started import StartedCollective


class _Collectives(Protocol):
    """The interface of `syncheck.sim.distributed.Distributed` that functional collectives need."""

    groups: NcclGroups

    def stream(self, group: str, device: int) -> StreamId: ...

    def record_end(self, work: Any, stream: StreamId, tensors: list[torch.Tensor]) -> StartedCollective: ...

    def join(self, started: StartedCollective) -> None: ...

    def location(self, site: SiteId) -> Location: ...


class FunctionalCollectives:
    """Runs the operators of `_c10d_functional`."""

    def __init__(self, collectives: _Collectives, runtime: Runtime, launches: Launches) -> None:
        self._collectives = collectives
        self._memory = runtime.memory
        self._gpus = runtime.gpus
        self._launches = launches
        self._started: dict[AllocationId, StartedCollective] = {}  # allocation -> the collective that writes it

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator."""
        base = schema_of(func).name.partition("::")[2]
        if base == "wait_tensor":
            return self._wait_tensor(func, args, kwargs)
        inputs = [tensor for tensor in tensors_in(args[0]) if self._memory.of(tensor) is not None]
        if not inputs or base.startswith("_wrap"):
            return func(*args, **kwargs)
        group = issue(func, args, kwargs, self._gpus.site(), self._collectives.location)
        device = self._memory.device(inputs[0])
        stream = self._collectives.stream(str(args[-1]), device)
        self._gpus.monitor.wait_stream(stream, self._gpus.current_stream(device), UNKNOWN_SITE, BY_TORCH)
        owners = {id(tensor): tensor_owners(tensor) for tensor in inputs}
        with watchdog.waiting(collective_name(schema_of(func).name), group):
            result = func(*self._collectives.groups.for_gpus(args), **kwargs)
        outputs = tensors_in(result)
        for tensor in outputs:
            torch.ops._c10d_functional.wait_tensor(tensor)  # the values are available immediately
        wait_for_gloo([(tensor, owners.get(id(tensor), 1)) for tensor in (*inputs, *outputs)])
        for tensor in outputs:
            if self._memory.of(tensor) is None:
                self._memory.tag(tensor.untyped_storage(), device, self._gpus.site())
        self._report(func, stream, inputs, outputs)
        return result

    def _report(self, func: Any, stream: StreamId, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        """Report the accesses of a collective."""
        memory = self._memory
        written = {memory.of(tensor).ident for tensor in outputs}  # type: ignore[union-attr]  # `run` tags them
        accesses = [(memory.of(t).ident, memory.view(t), True) for t in outputs]  # type: ignore[union-attr]
        accesses += [
            (tag.ident, memory.view(t), False) for t in inputs if (tag := memory.of(t)) and tag.ident not in written
        ]
        self._launches.launch(stream, schema_of(func).name, accesses)
        self._gpus.monitor.collective(stream, schema_of(func).name, self._gpus.site())
        self._started |= dict.fromkeys(written, self._collectives.record_end(None, stream, inputs))

    def _wait_tensor(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tag = self._memory.of(args[0])
        started = self._started.pop(tag.ident, None) if tag is not None else None
        if started is not None:
            self._collectives.join(started)
        return func(*args, **kwargs)
