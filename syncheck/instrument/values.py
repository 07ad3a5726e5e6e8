"""The values of tensors, so that two runs of a program can be compared."""

import ctypes
import random
import sys
import zlib

import torch

from syncheck.instrument.torch_internals import data_ptr, tolist
from syncheck.witness.record import Values

_SHOWN = 256
"""Values of a tensor that are kept, so that the first that differ can be shown."""


def values_of(tensor: torch.Tensor, place: str = "") -> Values:
    """Return the values of a tensor of the host; `place`: the line that it belongs to."""
    flat = tensor.detach().reshape(-1).contiguous()
    n_bytes = flat.numel() * flat.element_size()
    checksum = zlib.crc32((ctypes.c_char * n_bytes).from_address(data_ptr(flat))) if n_bytes else 0
    return Values(checksum, tuple(map(_text, tolist(flat[:_SHOWN]))), flat.numel(), place)


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def begin_alike() -> None:
    """Let the program begin with the same random numbers in each run, as long as it asks for no others."""
    torch.default_generator.manual_seed(0)
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
