"""Answers about torch's tensors, for `syncheck.semantics.waits.host_wait`."""

from collections.abc import Callable
from typing import Any

import torch

_MASKS = frozenset({torch.bool, torch.uint8})


class TorchFacts:
    """See `syncheck.semantics.waits.TensorFacts`.

    Args:
        is_on_gpu: returns whether a tensor lies on a GPU.
    """

    def __init__(self, is_on_gpu: Callable[[torch.Tensor], bool]) -> None:
        self.is_on_gpu = is_on_gpu

    def is_tensor(self, value: Any) -> bool:
        """Return whether an argument is a tensor."""
        return isinstance(value, torch.Tensor)

    def is_mask(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor holds truth values."""
        return tensor.dtype in _MASKS

    def is_number(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has one element."""
        return tensor.numel() == 1
