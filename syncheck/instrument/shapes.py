"""The shapes of the tensors in an arbitrary value, such as a batch."""

from collections import deque
from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Any

import torch

from syncheck.instrument.torch_internals import DisableTorchFunction

_MAX = 64
"""The most shapes to collect, and the most parts of a container to search."""
_MAX_VALUES = 256
"""The most values to search: a batch may hold more than data."""


def shapes_of(value: Any) -> Hashable:
    """Return shapes and dtypes of the tensors in a value: in tuples, lists, dicts and attributes of objects.

    This runs no code of the program, neither of its classes nor of its modes.
    """
    found: list[Hashable] = []
    pending = deque([value])
    with DisableTorchFunction():
        for _ in range(_MAX_VALUES):
            if not pending or len(found) >= _MAX:
                break
            value = pending.popleft()
            if isinstance(value, torch.Tensor):
                found.append((value.shape, value.dtype))
            else:
                pending.extend(_parts(value))
    return tuple(found)


def _parts(value: Any) -> Iterable[Any]:
    """Return the parts of an object; none for a list of numbers or of text."""
    if isinstance(value, dict):
        return islice(dict.values(value), _MAX)
    if isinstance(value, list | tuple):
        kind: Any = list if isinstance(value, list) else tuple
        parts = kind.__getitem__(value, slice(_MAX))
        return () if parts and isinstance(parts[0], int | float | str | bytes) else parts
    if isinstance(value, type) or not getattr(type(value), "__dictoffset__", 0):
        return ()
    try:
        return islice(object.__getattribute__(value, "__dict__").values(), _MAX)
    except AttributeError:
        return ()
