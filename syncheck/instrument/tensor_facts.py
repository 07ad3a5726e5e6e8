"""Properties of torch tensors, for `syncheck.semantics`."""

from collections.abc import Callable
from typing import Any

import torch

from syncheck.semantics.copies import Layout, is_staged

_MASKS = frozenset({torch.bool, torch.uint8})


class TorchFacts:
    """Implements `syncheck.semantics.waits.TensorFacts`.

    Args:
        is_on_gpu: returns whether a tensor is on a GPU.
    """

    def __init__(self, is_on_gpu: Callable[[torch.Tensor], bool]) -> None:
        self.is_on_gpu = is_on_gpu

    def is_tensor(self, value: Any) -> bool:
        """Return whether an argument is a tensor."""
        return isinstance(value, torch.Tensor)

    def is_mask(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is a mask."""
        return tensor.dtype in _MASKS

    def is_number(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has one element."""
        return tensor.numel() == 1


def is_staged_copy(target: torch.Tensor, source: torch.Tensor, *, to_host: bool) -> bool:
    """Return whether a copy between a GPU and pinned memory uses a temporary; `to_host`: the host is the target."""
    if source.is_sparse or target.is_sparse:
        return False
    sizes = tuple(target.shape)
    missing = (0,) * (target.dim() - source.dim())
    widened = zip((*missing, *source.shape), (*missing, *source.stride()), sizes, strict=True)
    strides = tuple(stride if size == wanted else 0 for size, stride, wanted in widened)
    ends = Layout(sizes, target.stride(), str(target.dtype)), Layout(sizes, strides, str(source.dtype))
    return is_staged(*(ends if to_host else reversed(ends)))


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first byte of a tensor in its storage, and one past its last byte."""
    item = tensor.element_size()
    start = int(tensor.storage_offset()) * item
    if not tensor.numel():
        return start, start
    last = sum((int(size) - 1) * int(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * item
