"""What torch does in C++ over several GPUs: scatter, gather, broadcast, and grouping tensors by device."""

from typing import Any

import torch

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C, group_by_device_and_dtype
from syncheck.sim.runtime import Runtime


class ParallelShim:
    """Replaces the C++ functions below `torch.nn.parallel.comm` and the foreach optimizers.

    Source:
        torch/csrc/cuda/comm.cpp: copies are non-blocking, on the current streams or on the given ones.
    """

    def __init__(self, runtime: Runtime, patches: Patches) -> None:
        self._gpus = runtime.gpus
        self._patches = patches

    def install(self) -> None:
        """Replace everything."""
        functions = {
            "_broadcast": self._broadcast,
            "_broadcast_out": self._broadcast_out,
            "_broadcast_coalesced": self._broadcast_coalesced,
            "_scatter": self._scatter,
            "_scatter_out": self._scatter_out,
            "_gather": self._gather,
            "_gather_out": self._gather_out,
        }
        for name, function in functions.items():
            self._patches.set(C, name, function)
        group = group_by_device_and_dtype
        self._patches.set(
            C,
            "_group_tensors_by_device_and_dtype",
            lambda lists, with_indices=False: self._group(group, lists, with_indices=with_indices),
        )

    def _broadcast(self, tensor: torch.Tensor, devices: list[int]) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.to(_device(d), non_blocking=True) for d in devices)

    def _broadcast_out(self, tensor: torch.Tensor, out: list[torch.Tensor]) -> list[torch.Tensor]:
        for target in out:
            target.copy_(tensor, non_blocking=True)
        return out

    def _broadcast_coalesced(
        self, tensors: list[torch.Tensor], devices: list[int], buffer_size: int = 0
    ) -> list[list[torch.Tensor]]:
        del buffer_size
        return [[tensor.to(_device(d), non_blocking=True) for tensor in tensors] for d in devices]

    def _scatter(
        self,
        tensor: torch.Tensor,
        devices: list[int],
        chunk_sizes: list[int] | None = None,
        dim: int = 0,
        streams: list[Any] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        chunks = _split(tensor, chunk_sizes, dim) if chunk_sizes else tensor.chunk(len(devices), dim)
        moved = []
        for position, (chunk, device) in enumerate(zip(chunks, devices, strict=False)):
            stream = streams[position] if streams else None
            with torch.cuda.stream(stream):
                moved.append(chunk.to(_device(device), non_blocking=True))
        return tuple(moved)

    def _scatter_out(
        self, tensor: torch.Tensor, out: list[torch.Tensor], dim: int = 0, streams: list[Any] | None = None
    ) -> list[torch.Tensor]:
        chunks = _split(tensor, [target.size(dim) for target in out], dim)
        for position, (chunk, target) in enumerate(zip(chunks, out, strict=True)):
            with torch.cuda.stream(streams[position] if streams else None):
                target.copy_(chunk, non_blocking=True)
        return out

    def _gather(self, tensors: list[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
        index = self._gpus.thread.device if destination is None else destination
        device = torch.device("cpu") if index == -1 else _device(index)
        shape = list(tensors[0].shape)
        shape[dim] = sum(tensor.size(dim) for tensor in tensors)
        return self._gather_out(tensors, torch.empty(shape, dtype=tensors[0].dtype, device=device), dim)

    def _gather_out(self, tensors: list[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
        parts = _split(out, [tensor.size(dim) for tensor in tensors], dim)
        for tensor, part in zip(tensors, parts, strict=True):
            part.copy_(tensor, non_blocking=True)
        return out

    def _group(self, original: Any, lists: Any, *, with_indices: bool) -> Any:
        """Group as torch does, by the virtual devices of the first list."""
        devices = [None if tensor is None else tensor.device for tensor in lists[0]]
        groups: dict[Any, Any] = {}
        for device in dict.fromkeys(devices):
            chosen = [index for index, found in enumerate(devices) if found == device]
            part = [[row[index] for index in chosen] if row else [] for row in lists]
            for (_, dtype), (tensors, positions) in original(part, with_indices).items():
                groups[device, dtype] = (tensors, [chosen[position] for position in positions])
        return groups


def _device(index: int) -> torch.device:
    return torch.device("cpu") if index == -1 else torch.device("cuda", index)


def _split(tensor: torch.Tensor, sizes: list[int], dim: int) -> tuple[torch.Tensor, ...]:
    return tensor.split(sizes, dim)  # type: ignore[no-untyped-call, no-any-return]  # torch leaves it untyped
