"""Copies between host and devices: the streams they run on, their stream waits and their host waits."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from syncheck.hb.ids import BY_TORCH, Access, NamedKind, StreamId
from syncheck.instrument.naming import name_of_tensor
from syncheck.instrument.plan import Plan
from syncheck.instrument.tensor_facts import is_staged_copy
from syncheck.instrument.torch_internals import SPARSE, overrides_dispatch, tensor_of
from syncheck.semantics.copies import HOST_DEVICE, CopyEnd, CopyPlan, copy_plan, is_non_blocking
from syncheck.sim.allocation import Allocation
from syncheck.sim.autograd import Backward
from syncheck.sim.deferral import Deferral
from syncheck.sim.device_kind import simulated
from syncheck.sim.graph_recorder import GraphRecorder
from syncheck.sim.host_regions import checksum
from syncheck.sim.launches import Launches
from syncheck.sim.memory import layout_of
from syncheck.sim.placement import Placement
from syncheck.sim.recorded import check_move, is_called_by_graph, is_recording
from syncheck.sim.runtime import Runtime
from syncheck.source.frames import frame_at

_ops = torch.ops.aten


class _MovingParts(threading.local):
    """State of the calling thread. `value`: a tensor with inner tensors is copying these to another device."""

    value = False


class RunPlain(NamedTuple):
    """Arguments with which a copy operator should run like any other operator."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Copies:
    """Copies of tensors, modeled on `aten/src/ATen/native/cuda/Copy.cu`.

    Attributes:
        specials: handlers of the operators handled here, by base name. Each returns the result, or a `RunPlain` if the
            operator should run like any other.
    """

    def __init__(
        self,
        runtime: Runtime,
        backward: Backward,
        launches: Launches,
        placement: Placement,
        recorder: GraphRecorder,
        deferral: Deferral | None = None,
    ) -> None:
        self._runtime = runtime
        self._deferral = deferral
        self._gpus = runtime.gpus
        self._memory = runtime.memory
        self._backward = backward
        self._launches = launches
        self._placement = placement
        self._graph_recorder = recorder
        self._moving_parts = _MovingParts()
        self.specials: dict[str, Callable[..., Any]] = {
            "_to_copy": self._run_to_copy,
            "copy_": self._run_copy,
            "_foreach_copy_": self._run_foreach_copy,
            "is_pinned": lambda _func, _plan, args, _kwargs: self.is_pinned(args[0]),
            "_pin_memory": lambda _func, _plan, args, _kwargs: self.pin(args[0]),
            "pin_memory": lambda _func, _plan, args, _kwargs: self.pin(args[0]),
        }

    # -- operators that reach the dispatcher

    def is_own_device(self, func: Any, wanted: torch.device) -> bool:
        """Return whether the device of an operator's result is the raw one that C++ code takes from its first tensor.

        Otherwise it is the target of a tensor with inner tensors, or of a copy in a graph.
        """
        return wanted.type == "cpu" and not self._moving_parts.value and not is_called_by_graph(func)

    def _run_to_copy(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del plan
        source = args[0]
        if not isinstance(source, torch.Tensor):  # vmap wraps Python numbers this way
            return func(*args, **kwargs)
        wanted = kwargs.get("device")
        device = self._memory.device(source)
        if wanted is None or (wanted.type == "cpu" and device == HOST_DEVICE):
            return RunPlain(args, kwargs)
        if wanted.type not in {"cpu", simulated().name}:
            return func(*args, **kwargs)
        target = device if self.is_own_device(func, wanted) else self.index_of(wanted)
        kwargs = {k: v for k, v in kwargs.items() if k not in {"device", "pin_memory"}}
        if target == device:
            return RunPlain(args, kwargs)
        non_blocking = bool(kwargs.pop("non_blocking", False))
        return self.transfer(source, target, non_blocking=non_blocking, **kwargs)

    def _run_copy(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del plan
        target, source = args[0], tensor_of(args[1])
        target_device, source_device = self._memory.device(target), self._memory.device(source)
        adopted = target_device == HOST_DEVICE and self._placement.adopt_target(target, source_device)
        if target_device == source_device or adopted:
            return RunPlain(args, kwargs)
        tape = self._recorder(target_device, source_device)
        if tape is not None:
            tape.copy(target, source)
        elif self._deferral is None:
            func(target, source)
        is_deferred = tape is None and self._deferral is not None
        self.log(target, source, non_blocking=is_non_blocking(args, kwargs), is_deferred=is_deferred)
        return target

    def _run_foreach_copy(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it like any other operator if all tensors are on one device, otherwise copy one by one, as torch does.

        Source:
            aten/src/ATen/native/ForeachOpsKernels.cpp, `foreach_tensor_copy_list_kernel_slow_`.
        """
        del func
        targets, sources = args[0], args[1]
        devices = {self._memory.device(t) for t in (*targets, *sources)}
        if len(devices) == 1:
            return RunPlain(args, kwargs)
        for target, source in zip(targets, sources, strict=True):
            target_device = self._memory.device(target)
            if target_device == self._memory.device(source):
                if self._deferral is None or target_device == HOST_DEVICE or self._recorder(target_device) is not None:
                    _ops.copy_.default(target, source)
                else:
                    self._deferral.copy(self._gpus.current_stream(target_device), target, source, snapshot=False)
                self._copied_on_one_device(plan, target, source)
            else:
                self._run_copy(_ops.copy_.default, plan, (target, source, is_non_blocking(args, kwargs)), {})
        return None

    def _copied_on_one_device(self, plan: Plan, target: torch.Tensor, source: torch.Tensor) -> None:
        device = self._memory.device(target)
        if device != HOST_DEVICE:
            accesses: list[Access] = []
            self._memory.add_access(accesses, source, is_write=False)
            self._memory.add_access(accesses, target, is_write=True)
            self._launches.launch(
                self._gpus.current_stream(device), plan.name, accesses, self._gpus.context(device, device)
            )

    # -- called by the shim of torch.Tensor

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is in pinned host memory."""
        tag = self._memory.of(tensor)
        return tag is not None and tag.pinned

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy in pinned host memory, or the tensor itself if it is already pinned."""
        self._runtime.check_process()
        if is_recording():
            return _ops._pin_memory.default(tensor)  # type: ignore[no-any-return]  # an operator
        if self.is_pinned(tensor):
            return tensor
        if self._memory.device(tensor) != HOST_DEVICE:
            raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
        if tensor.layout not in SPARSE:
            self._launches.host_read("aten::_pin_memory", tensor)
        with self._runtime.unmonitored():
            pinned = _ops.clone.default(tensor.detach())
        self._memory.tag_pinned(pinned.untyped_storage())
        return pinned  # type: ignore[no-any-return]  # an operator

    def _transfer_parts(self, source: torch.Tensor, target: int, **kwargs: Any) -> torch.Tensor:
        """Make a tensor with inner tensors copy these to another device, each with its own operator, or record it."""
        before, self._moving_parts.value = self._moving_parts.value, True
        try:
            return _ops._to_copy.default(source.detach(), device=self.device_at(target), **kwargs)  # type: ignore[no-any-return]  # an operator
        finally:
            self._moving_parts.value = before

    def index_of(self, device: torch.device) -> int:
        """Return the index of a virtual GPU, or HOST_DEVICE for the host."""
        return HOST_DEVICE if device.type == "cpu" else self._runtime.index_of(device)

    def device_at(self, index: int) -> torch.device:
        """Return the device for an index: the inverse of `index_of`."""
        return torch.device("cpu") if index == HOST_DEVICE else self._runtime.torch_devices[index]

    def transfer(self, source: torch.Tensor, target: int, *, non_blocking: bool, **kwargs: Any) -> torch.Tensor:
        """Return a copy of a tensor on another device, without autograd.

        With `non_blocking`, a copy to the host goes to pinned memory.

        Source:
            aten/src/ATen/native/TensorConversions.cpp, `_to_copy`: pin_out.
        """
        if overrides_dispatch(type(source)) or is_recording():
            return self._transfer_parts(source, target, non_blocking=non_blocking, **kwargs)
        check_move()
        source_device = self._memory.device(source)
        # a real conversion runs on the source device, or after a copy to the host: the values are the same
        recorder = self._recorder(source_device, target)
        with self._runtime.unmonitored():
            result: torch.Tensor = _ops._to_copy.default(source.detach(), **kwargs)  # torch's name
        if recorder is None and self._deferral is not None:
            self._deferral.assign_memory(result, target)  # its stream makes the copy, possibly later
        storage = result.untyped_storage()
        if target != HOST_DEVICE:
            self._backward.enter_node(target)
            tag = self._memory.tag(storage, target, self._gpus.site())
            tag.layout = layout_of(result)
        elif non_blocking:
            self._memory.tag_pinned(storage)
        if recorder is not None:
            recorder.note_copy(result, source)
        self.log(result, source, non_blocking=non_blocking, is_deferred=recorder is None and self._deferral is not None)
        return result

    def _recorder(self, *devices: int) -> Any:
        """Return the recorder of a graph capture in progress on one of the devices' current streams, if any."""
        gpus = self._gpus
        used = [gpus.current_stream(device) for device in devices if device != HOST_DEVICE]
        return self._graph_recorder if any(gpus.monitor.capturing(stream) for stream in used) else None

    # -- ordering

    def log(self, target: torch.Tensor, source: torch.Tensor, *, non_blocking: bool, is_deferred: bool = False) -> None:
        """Report a copy between different devices. `is_deferred`: its stream has yet to perform it."""
        if not target.numel():
            return
        to, origin = self._memory.of(target), self._memory.of(source)
        is_pinned = any(tag is not None and tag.pinned for tag in (to, origin))
        is_staged = is_pinned and is_staged_copy(target, source, to_host=to is not None and to.pinned)
        plan = copy_plan(_end(to, is_staged), _end(origin, is_staged), non_blocking=non_blocking)
        self._backward.enter_node(plan.device)
        stream = self._gpus.current_stream(plan.device)
        if plan.other == HOST_DEVICE and plan.device == _end(to).device:
            self._check_source(source, plan, stream, non_blocking=non_blocking)
        accesses = self._accesses(source, origin, plan, is_write=False)
        accesses += self._accesses(target, to, plan, is_write=True)
        self._launch(plan, stream, accesses, (target, source) if is_deferred else None)
        if plan.host_waits:
            what = "a copy to the host" if to is None or to.device == HOST_DEVICE else "a blocking copy"
            self._synchronize(stream, what, is_requested=not non_blocking)
            if is_deferred and plan.device != _end(to).device and self._deferral is not None:
                self._deferral.host_reads([target])
        elif origin is not None and origin.device == HOST_DEVICE and origin.exported and plan.uses_host_memory:
            origin.in_flight = checksum(source.untyped_storage())
        if plan.host_writes_target:
            self._launches.host_write("aten::copy_", target)

    def _check_source(self, source: torch.Tensor, plan: CopyPlan, stream: StreamId, *, non_blocking: bool) -> None:
        """Check host memory that is about to be copied to a device."""
        if plan.host_reads_source:
            self._launches.host_read("aten::copy_", source)
            if non_blocking and self._gpus.monitor.capturing(stream):
                self._runtime.reject_in_capture("a copy from pageable memory")
        self._runtime.verify_unmodified(source)
        if plan.overlaps_nothing:
            self._report_pageable(source)

    def _accesses(
        self, tensor: torch.Tensor, tag: Allocation | None, plan: CopyPlan, *, is_write: bool
    ) -> list[Access]:
        if tag is None or (tag.device == HOST_DEVICE and not plan.uses_host_memory):
            return []
        return [(tag.ident, self._memory.view(tensor), is_write)]

    def _launch(
        self,
        plan: CopyPlan,
        stream: StreamId,
        accesses: list[Access],
        deferred: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> None:
        gpus, site = self._gpus, self._gpus.site()
        other = plan.device if plan.other == HOST_DEVICE else plan.other
        if plan.is_peer:
            self._memory.flush()
            gpus.monitor.wait_stream(stream, gpus.current_stream(other), site, BY_TORCH)
        if deferred is not None and self._deferral is not None:
            self._deferral.copy(stream, *deferred, snapshot=plan.host_reads_source)
        self._launches.launch(stream, "aten::copy_", accesses, gpus.context(plan.device, other))
        if plan.is_peer:
            gpus.monitor.wait_stream(gpus.current_stream(other), stream, site, BY_TORCH)

    def _report_pageable(self, source: torch.Tensor) -> None:
        gpus = self._gpus
        ident = gpus.next_allocation()  # plain host memory has no id of its own
        gpus.monitor.pageable_copy(ident, self._memory.view(source), gpus.site())
        if self._runtime.has_new_findings:
            name = name_of_tensor(frame_at(1), lambda value: value is source)
            gpus.monitor.name(NamedKind.ALLOCATION, ident, name)
            self._runtime.name_findings()

    def _synchronize(self, stream: StreamId, what: str, *, is_requested: bool) -> None:
        """Make the host wait. `is_requested`: the program requested it, so that torch can warn about it."""
        gpus = self._gpus
        if gpus.monitor.capturing(stream):
            self._runtime.reject_in_capture(what)
        self._memory.flush()
        if is_requested:
            self._runtime.wait_in_operator(stream)
        else:
            gpus.monitor.sync_stream(stream, gpus.site(), explicit=False)


def _end(tag: Allocation | None, is_staged: bool = False) -> CopyEnd:
    return CopyEnd(HOST_DEVICE) if tag is None else CopyEnd(tag.device, tag.pinned, tag.pinned and is_staged)
