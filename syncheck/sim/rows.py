"""What operators with an index touch: the rows that it names, since the simulator holds its values."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from syncheck.semantics.operators import ELEMENTWISE, ROWS

_MOST_VALUES = 1 << 14
"""Longer indices are not looked at: any rows may be those that are touched."""
_MOST_BLOCKS = 64
"""Blocks of one access; where there are more, the closest are taken together with what lies between them."""


class Block(NamedTuple):
    """Rows side by side: where they begin, as the tensor's `storage_offset`, and their shape."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Picks(NamedTuple):
    """An index of some dimensions of a tensor.

    Attributes:
        dims: the dimensions.
        indices: for each a tensor of positions; all have one shape when they are broadcast.
        sizes: how much is touched in each dimension of the tensor that is not indexed.
    """

    dims: Sequence[int]
    indices: Sequence[torch.Tensor]
    sizes: Sequence[int]


def blocks_of(tensor: torch.Tensor, picks: Picks) -> list[Block] | None:
    """Return what an index picks of a tensor; None where there is too much to look at.

    Called where torch's operators are not seen.
    """
    if sum(index.numel() for index in picks.indices) > _MOST_VALUES:
        return None
    offsets = torch.zeros((), dtype=torch.int64)
    for dim, index in zip(picks.dims, picks.indices, strict=True):
        positions = index.to(torch.int64)
        offsets = offsets + torch.where(positions < 0, positions + tensor.size(dim), positions) * tensor.stride(dim)
    rest = [dim for dim in range(tensor.dim()) if dim not in picks.dims]
    sizes, strides = tuple(picks.sizes[dim] for dim in rest), tuple(tensor.stride(dim) for dim in rest)
    step = max(1, tensor.stride(picks.dims[-1]))
    runs = _joined(list(_runs(torch.unique(offsets).tolist(), step)), step)
    begin = int(tensor.storage_offset())
    return [
        Block(begin + start, (count, *sizes), (step, *strides))
        for first, length in runs
        for start, count in _aligned(first, length, step)
    ]


def picks_of(base: str, tensor: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Picks | None:
    """Return what the index of an operator picks of its first tensor; None where it touches all of it.

    Called where torch's operators are not seen.

    Args:
        base: the operator.
        tensor: its first tensor.
        args: what it is given by position.
        kwargs: what it is given by name.
    """
    if tensor.layout is not torch.strided or not tensor.dim():
        return None
    dim_position, position = ROWS[base]
    index = args[position] if position < len(args) else kwargs.get("index", kwargs.get("indices"))
    if isinstance(index, list | tuple):
        return _several(tensor, index)
    if not isinstance(index, torch.Tensor):
        return None
    dim = 0 if dim_position is None else int(args[dim_position] if dim_position < len(args) else kwargs["dim"])
    dim %= tensor.dim()
    is_elementwise = base in ELEMENTWISE and index.dim() == tensor.dim()
    sizes = [min(pair) for pair in zip(tensor.shape, index.shape, strict=True)] if is_elementwise else tensor.shape
    return Picks([dim], [index], sizes)


def _several(tensor: torch.Tensor, given: Sequence[torch.Tensor | None]) -> Picks | None:
    """Take `tensor[i, :, j]` apart; a mask stands for the positions where it is true."""
    dims: list[int] = []
    indices: list[torch.Tensor] = []
    dim = 0
    for index in given:
        if index is None:
            dim += 1
            continue
        is_mask = index.dtype in {torch.bool, torch.uint8}
        parts = index.nonzero(as_tuple=True) if is_mask else (index,)
        indices += parts
        dims += range(dim, dim + len(parts))
        dim += len(parts)
    return Picks(dims, indices, tensor.shape) if dims else None


def _runs(offsets: list[int], step: int) -> Iterator[tuple[int, int]]:
    """Yield (first offset, number) of the offsets that follow each other; they are sorted."""
    first, count = None, 0
    for offset in offsets:
        if first is not None and offset == first + count * step:
            count += 1
            continue
        if first is not None:
            yield first, count
        first, count = offset, 1
    if first is not None:
        yield first, count


def _joined(runs: list[tuple[int, int]], step: int) -> list[tuple[int, int]]:
    """Take the runs with the smallest gaps together, until there are few."""
    if len(runs) <= _MOST_BLOCKS:
        return runs
    gaps = [after[0] - before[0] - before[1] * step for before, after in pairwise(runs)]
    largest = sorted(range(len(gaps)), key=gaps.__getitem__)[1 - _MOST_BLOCKS :]
    joined, begin = [], 0
    for end in [*sorted(largest), len(runs) - 1]:
        first, (last, count) = runs[begin][0], runs[end]
        joined.append((first, -((first - last) // step) + count))
        begin = end + 1
    return joined


def _aligned(first: int, count: int, step: int) -> Iterator[tuple[int, int]]:
    """Split a run at multiples of powers of two, so that different runs have few different blocks."""
    position = first // step
    while count:
        size = 1 << (count.bit_length() - 1)
        if position:
            size = min(size, position & -position)
        yield first, size
        first, position, count = first + size * step, position + size, count - size
