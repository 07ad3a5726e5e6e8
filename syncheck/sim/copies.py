"""Copies between host and devices: which stream they run on, what waits for what, and who waits on the host."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syncheck.instrument.naming import name_of_tensor
from syncheck.instrument.plan import Plan, tensors_of
from syncheck.sim.memory import Allocation
from syncheck.sim.virtual_gpus import HOST_DEVICE

if TYPE_CHECKING:
    from syncheck.sim.simulator import Simulator

_ops = torch.ops.aten


class Copies:
    """Copies of tensors, as `aten/src/ATen/native/cuda/Copy.cu` does them.

    Attributes:
        specials: the operators that are handled here, by base name.
    """

    def __init__(self, simulator: "Simulator") -> None:
        self._simulator = simulator
        self._gpus = simulator.gpus
        self._memory = simulator.memory
        self.specials: dict[str, Callable[..., Any]] = {
            "_to_copy": self._run_to_copy,
            "copy_": self._run_copy,
            "_foreach_copy_": self._run_foreach_copy,
            "_local_scalar_dense": self._run_item,
            "is_pinned": self._run_is_pinned,
            "_pin_memory": self._run_pin,
            "pin_memory": self._run_pin,
        }

    # -- operators that reach the dispatcher

    def _run_to_copy(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source = args[0]
        if not isinstance(source, torch.Tensor):  # vmap wraps a Python number so
            return func(*args, **kwargs)
        wanted = kwargs.get("device")
        here = self._memory.device(source)
        if wanted is None or (wanted.type == "cpu" and here == HOST_DEVICE):
            return self._simulator.dispatcher.run_plain(func, plan, args, kwargs)
        if wanted.type not in {"cpu", "cuda"}:
            return func(*args, **kwargs)
        # A CPU device here comes from C++ ("the tensor's own options"); the program's `.to("cpu")` never gets here.
        target = here if wanted.type == "cpu" else self._simulator.index_of(wanted)
        kwargs = {k: v for k, v in kwargs.items() if k not in {"device", "pin_memory"}}
        if target == here:
            return self._simulator.dispatcher.run_plain(func, plan, args, kwargs)
        non_blocking = bool(kwargs.pop("non_blocking", False))
        return self.transfer(source, target, non_blocking=non_blocking, **kwargs)

    def _run_copy(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target, source = args[0], args[1]
        here, there = self._memory.device(target), self._memory.device(source)
        adopted = here == HOST_DEVICE and self._simulator.dispatcher.placement.adopt_target(target, there)
        if here == there or adopted:
            return self._simulator.dispatcher.run_plain(func, plan, args, kwargs)
        non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        tape = self._recorder(here, there)
        if tape is not None:
            tape.run(func, plan, tensors_of(plan, args, kwargs), args, kwargs)
        else:
            func(target, source)
        self.log(target, source, non_blocking=non_blocking)
        return target

    def _run_foreach_copy(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        targets, sources = args[0], args[1]
        devices = {self._memory.device(t) for t in (*targets, *sources)}
        if len(devices) == 1:
            return self._simulator.dispatcher.run_plain(func, plan, args, kwargs)
        non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        for target, source in zip(targets, sources, strict=True):
            self._simulator.dispatcher.run(_ops.copy_.default, (target, source, non_blocking), {})
        return None

    def _run_item(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._simulator.dispatcher.run_plain(func, plan, args, kwargs)

    def _run_is_pinned(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del func, plan, kwargs
        return self.is_pinned(args[0])

    def _run_pin(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del func, plan, kwargs
        return self.pin(args[0])

    # -- what the shim of torch.Tensor calls

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Tell whether a tensor is in pinned host memory."""
        tag = self._memory.of(tensor)
        return tag is not None and tag.pinned

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy in pinned host memory, or the tensor itself if it is there."""
        if self.is_pinned(tensor):
            return tensor
        if self._memory.device(tensor) != HOST_DEVICE:
            raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
        if not tensor.is_sparse:
            self._simulator.dispatcher.host_touch("aten::_pin_memory", _read(tensor))
        with self._simulator.unmonitored():
            pinned = _ops.clone.default(tensor.detach())
        self._memory.tag(pinned.untyped_storage(), HOST_DEVICE, 0, pinned=True)
        return pinned  # type: ignore[no-any-return]  # an operator

    def transfer(self, source: torch.Tensor, target: int, *, non_blocking: bool, **kwargs: Any) -> torch.Tensor:
        """Return a copy of a tensor on another device, without autograd.

        A copy to the host with `non_blocking` goes to pinned memory by itself.

        Source:
            aten/src/ATen/native/TensorConversions.cpp, `_to_copy`: pin_out.
        """
        here = self._memory.device(source)
        # a conversion runs on the device it starts from, for a copy to the host after it: values are the same
        recorder = self._recorder(here, target)
        with self._simulator.unmonitored():
            result: torch.Tensor = _ops._to_copy.default(source.detach(), **kwargs)  # noqa: SLF001  torch's own name
        storage = result.untyped_storage()
        if target != HOST_DEVICE:
            self._simulator.backward.enter_node(target)
            self._memory.tag(storage, target, self._gpus.site())
        elif non_blocking:
            self._memory.tag(storage, HOST_DEVICE, 0, pinned=True)
        if recorder is not None:
            recorder.note_copy(result, source)
        self.log(result, source, non_blocking=non_blocking)
        return result

    def _recorder(self, *devices: int) -> Any:
        """Return the recorder of a graph capture in progress on one of the devices' current streams, if any."""
        gpus = self._gpus
        used = [gpus.current_stream(device) for device in devices if device != HOST_DEVICE]
        return self._simulator.recorder if any(gpus.monitor.capturing(stream) for stream in used) else None

    # -- ordering

    def log(self, target: torch.Tensor, source: torch.Tensor, *, non_blocking: bool) -> None:
        """Tell the monitor of a copy between different devices, done already."""
        if not target.numel():
            return
        to, origin = self._memory.of(target), self._memory.of(source)
        here = HOST_DEVICE if to is None else to.device
        there = HOST_DEVICE if origin is None else origin.device
        if here == HOST_DEVICE:
            self._device_to_host(target, to, source, origin, there, non_blocking=non_blocking)
        elif there == HOST_DEVICE:
            self._host_to_device(target, to, source, origin, here, non_blocking=non_blocking)
        else:
            self._device_to_device(target, source, here, there)

    def _host_to_device(
        self,
        target: torch.Tensor,
        to: Allocation | None,
        source: torch.Tensor,
        origin: Allocation | None,
        device: int,
        *,
        non_blocking: bool,
    ) -> None:
        assert to is not None  # noqa: S101  it is on a device
        gpus, dispatcher = self._gpus, self._simulator.dispatcher
        self._simulator.backward.enter_node(device)
        stream = gpus.current_stream(device)
        accesses = [(to.ident, self._memory.view(target), True)]
        if origin is not None:
            dispatcher.host_touch("aten::copy_", _read(source)) if not origin.pinned else None
        if origin is not None and origin.pinned:
            self._simulator.verify_unmodified(source)
            accesses.append((origin.ident, self._memory.view(source), False))
        elif non_blocking and not gpus.monitor.capturing(stream):
            self._report_pageable(source)
        dispatcher.launch(stream, "aten::copy_", accesses, gpus.mismatch(device, device))
        if not non_blocking:
            self._synchronize(stream, "a blocking copy")
        elif origin is not None and origin.pinned and origin.exported:
            origin.in_flight = self._memory.checksum(source.untyped_storage())

    def _report_pageable(self, source: torch.Tensor) -> None:
        gpus = self._gpus
        ident = gpus.next_id("allocation")  # plain host memory has no id of its own
        if gpus.monitor.pageable_copy(ident, self._memory.view(source), gpus.site()):
            name = name_of_tensor(sys._getframe(1), lambda value: value is source)  # noqa: SLF001  to get a frame
            gpus.monitor.name("allocation", ident, name)

    def _device_to_host(
        self,
        target: torch.Tensor,
        to: Allocation | None,
        source: torch.Tensor,
        origin: Allocation | None,
        device: int,
        *,
        non_blocking: bool,
    ) -> None:
        assert origin is not None  # noqa: S101  it is on a device
        gpus = self._gpus
        self._simulator.backward.enter_node(device)
        stream = gpus.current_stream(device)
        accesses = [(origin.ident, self._memory.view(source), False)]
        is_pinned = to is not None and to.pinned
        if to is not None and is_pinned:
            accesses.append((to.ident, self._memory.view(target), True))
        self._simulator.dispatcher.launch(stream, "aten::copy_", accesses, gpus.mismatch(device, device))
        if not (non_blocking and is_pinned):
            self._synchronize(stream, "a copy to the host")

    def _device_to_device(self, target: torch.Tensor, source: torch.Tensor, here: int, there: int) -> None:
        """Log a peer copy: on the source's current stream, with waits before and after.

        Source:
            aten/src/ATen/native/cuda/Copy.cu, `copy_device_to_device`: dst_ready and src_ready events.
        """
        gpus, memory = self._gpus, self._memory
        self._simulator.backward.enter_node(there)
        source_stream, target_stream = gpus.current_stream(there), gpus.current_stream(here)
        to, origin = memory.of(target), memory.of(source)
        assert to is not None and origin is not None  # noqa: S101, PT018  both are on devices
        site = gpus.site()
        memory.flush()
        gpus.monitor.wait_stream(source_stream, target_stream, site, ("torch", ""))
        accesses = [(origin.ident, memory.view(source), False), (to.ident, memory.view(target), True)]
        context = gpus.mismatch(there, here)
        self._simulator.dispatcher.launch(source_stream, "aten::copy_", accesses, context)
        gpus.monitor.wait_stream(target_stream, source_stream, site, ("torch", ""))

    def _synchronize(self, stream: int, what: str) -> None:
        gpus = self._gpus
        if gpus.monitor.capturing(stream):
            self._simulator.refuse_in_capture(what)
        self._memory.flush()
        gpus.monitor.sync_stream(stream, gpus.site(), explicit=False)


def _read(tensor: torch.Tensor) -> list[Any]:
    from syncheck.instrument.plan import Argument  # noqa: PLC0415

    return [(tensor, Argument(0, "self", is_list=False, is_write=False, is_read=True))]
