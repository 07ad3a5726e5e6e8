"""Scatter, gather and broadcast over several GPUs, which torch implements in C++.

Source:
    torch/csrc/cuda/comm.cpp: the checks and their messages, and how tensors are copied: on the current streams or on
    the given ones, without blocking if the target is on a GPU.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch._utils import _flatten_dense_tensors, _reorder_tensors_as, _take_tensors, _unflatten_dense_tensors

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C, sparse_parts
from syncheck.sim.device_kind import gpu, is_on_gpu
from syncheck.sim.runtime import Runtime

_Streams = Sequence[Any] | None
_new_sparse: Any = torch.ops.aten._sparse_coo_tensor_unsafe
"""Create a sparse tensor without a check of its indices, and without the warning that there is none."""
_BUFFER_SIZE = 10 * 1024 * 1024
"""Size in bytes of the buffer in which tensors are coalesced: torch/csrc/cuda/python_comm.cpp."""


def install_comm(runtime: Runtime, patches: Patches) -> None:
    """Replace the C++ functions behind `torch.nn.parallel.comm`."""
    functions = {
        "_broadcast": _broadcast,
        "_broadcast_out": _broadcast_out,
        "_broadcast_coalesced": _broadcast_coalesced,
        "_scatter": _scatter,
        "_scatter_out": _scatter_out,
        "_gather": partial(_gather, runtime),
        "_gather_out": _gather_out,
    }
    for name, function in functions.items():
        patches.set(C, name, function)


# -- broadcast


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> tuple[torch.Tensor, ...]:
    for device in devices:
        _check(device >= 0, f"Expected non-negative device index, but got {device}")
    return tuple(_copied(tensor, device) for device in devices)


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    for index, target in enumerate(out):
        _check_on_gpu(index, target)
        _check(
            target.shape == tensor.shape,
            f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, but output "
            f"tensor at index {index} has shape {list(target.shape)}",
        )
    for target in out:
        target.copy_(tensor, non_blocking=True)
    return out


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int = _BUFFER_SIZE
) -> list[list[torch.Tensor]]:
    """Broadcast tensors in chunks of one type, each flattened by the source's current stream, which waits for nothing.

    Source:
        torch/csrc/cuda/comm.cpp, `broadcast_coalesced`, and torch/csrc/utils/tensor_flatten.h: a chunk of one tensor
        is not copied. A result has a version counter of its own.
    """
    _check(
        all(tensor.get_device() == devices[0] for tensor in tensors), f"All tensors must be on devices[0]: {devices[0]}"
    )
    results: list[list[torch.Tensor]] = [[] for _ in devices[1:]]
    for chunk in _take_tensors([tensor.detach() for tensor in tensors], buffer_size):  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for result, copies in zip(results, _broadcast_chunk(chunk, devices[1:]), strict=True):
            result += [copy.data for copy in copies]
    ordered = (list(_reorder_tensors_as(result, tensors)) for result in results)  # type: ignore[no-untyped-call]  # as above
    return [list(tensors), *ordered]


def _broadcast_chunk(chunk: Sequence[torch.Tensor], devices: Sequence[int]) -> list[Sequence[torch.Tensor]]:
    """Return the copies of the tensors of a chunk on each device."""
    if chunk[0].is_sparse:
        parts = [sparse_parts(tensor) for tensor in chunk]
        indices, values = (_broadcast_chunk(kind, devices) for kind in zip(*parts, strict=True))
        return [
            [_new_sparse(i, v, tensor.shape) for i, v, tensor in zip(*here, chunk, strict=True)]
            for here in zip(indices, values, strict=True)
        ]
    whole = _flatten_dense_tensors(chunk)  # type: ignore[no-untyped-call]  # as above
    return [_unflatten_dense_tensors(_copied(whole, device), chunk) for device in devices]  # type: ignore[no-untyped-call]  # as above


# -- scatter


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: _Streams = None,
) -> tuple[torch.Tensor, ...]:
    _check(bool(devices), "Expected at least one device to scatter to")
    if chunk_sizes is not None:
        _check(
            len(chunk_sizes) == len(devices),
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}",
        )
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else _split(tensor, chunk_sizes, dim)
    moved = []
    for index, (chunk, device) in enumerate(zip(chunks, devices, strict=False)):
        if device == tensor.get_device():
            moved.append(chunk)
            continue
        with torch.cuda.stream(_stream_at(streams, index, device)):
            moved.append(_copied(chunk, device))
    return tuple(moved)


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int = 0, streams: _Streams = None
) -> Sequence[torch.Tensor]:
    _check(bool(out), "Expected at least one output tensor to scatter to")
    dim = range(tensor.dim())[dim]
    for index, target in enumerate(out):
        _check_on_gpu(index, target)
        _check(
            _without(target.shape, dim) == _without(tensor.shape, dim) and target.dim() == tensor.dim(),
            f"Output tensor at index {index} has incorrect shape: {list(target.shape)}. Expected same shape except for "
            f"scatter dim {dim} as the source tensor: {list(tensor.shape)}",
        )
    sizes = [target.size(dim) for target in out]
    _check(
        sum(sizes) == tensor.size(dim),
        f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim {dim}. "
        f"Expected {tensor.size(dim)}, but got total size {sum(sizes)}",
    )
    for index, (chunk, target) in enumerate(zip(_split(tensor, sizes, dim), out, strict=True)):
        with torch.cuda.stream(_stream_at(streams, index, target.get_device())):
            target.copy_(chunk, non_blocking=True)
    return out


def _stream_at(streams: _Streams, index: int, device: int) -> Any:
    """Return the stream for a chunk, or None if none was given."""
    stream = streams[index] if streams is not None and index < len(streams) else None
    if stream is None:
        return None
    _check(
        stream.device_index == device,
        f"Expected the device associated with the stream at index {index} (was {stream.device_index}) "
        f"to match the device supplied at that index (expected {device})",
    )
    return stream


# -- gather


def _gather(runtime: Runtime, tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    shape = _gathered_shape(tensors, dim)
    index = runtime.gpus.thread.device if destination is None else destination
    device = torch.device("cpu") if index == -1 else gpu(index)
    formats = {_memory_format(tensor) for tensor in tensors}
    memory_format = formats.pop() if len(formats) == 1 else torch.contiguous_format
    out = torch.empty(shape, dtype=tensors[0].dtype, device=device, memory_format=memory_format)
    return _fill(tensors, out, dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    shape = _gathered_shape(tensors, dim)
    _check(list(out.shape) == shape, f"Expected out tensor to have shape {shape}, but got {list(out.shape)}")
    return _fill(tensors, out, dim)


def _gathered_shape(tensors: Sequence[torch.Tensor], dim: int) -> list[int]:
    """Return the shape of the gathered tensor, or raise torch's errors if the tensors do not match."""
    _check(bool(tensors), "Expected at least one tensor to gather from")
    shape = list(tensors[0].shape)
    dim = range(len(shape))[dim]
    for index, tensor in enumerate(tensors):
        _check(
            is_on_gpu(tensor),
            f"Expected all input tensors to be CUDA tensors, but tensor at index {index} has device {tensor.device}",
        )
        _check(
            tensor.dim() == len(shape),
            f"Expected all input tensors to have the same number of dimensions, but tensor at index {index}has "
            f"{tensor.dim()} dimensions, (expected {len(shape)})",
        )
        shape[dim] = tensor.size(dim)
        _check(
            list(tensor.shape) == shape,
            f"Input tensor at index {index} has invalid shape {list(tensor.shape)}, but expected {shape}",
        )
    shape[dim] = sum(tensor.size(dim) for tensor in tensors)
    return shape


def _fill(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    parts = _split(out, [tensor.size(dim) for tensor in tensors], dim)
    for tensor, part in zip(tensors, parts, strict=True):
        part.copy_(tensor, non_blocking=is_on_gpu(out))
    return out


# -- shared helpers


def _check(condition: bool, message: str) -> None:  # like TORCH_CHECK
    if not condition:
        raise RuntimeError(message)


def _check_on_gpu(index: int, target: torch.Tensor) -> None:
    _check(
        is_on_gpu(target),
        f"Expected all output tensors to be CUDA tensors, but output tensor at index {index} has device "
        f"'{target.device}'",
    )


def _copied(tensor: torch.Tensor, device: int) -> torch.Tensor:
    _check(device >= 0, f"Expected non-negative device index, but got {device}")
    return tensor.to(gpu(device), non_blocking=True)


def _split(tensor: torch.Tensor, sizes: Sequence[int], dim: int) -> tuple[torch.Tensor, ...]:
    return tensor.split(list(sizes), dim)  # type: ignore[no-untyped-call, no-any-return]  # torch leaves it untyped


def _without(shape: torch.Size, dim: int) -> tuple[int, ...]:
    return (*shape[:dim], *shape[dim + 1 :])


def _memory_format(tensor: torch.Tensor) -> torch.memory_format:
    """Return the memory format of a tensor, as torch's `suggest_memory_format` does."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    suggested = formats.get(tensor.dim(), torch.contiguous_format)
    return suggested if tensor.is_contiguous(memory_format=suggested) else torch.contiguous_format
