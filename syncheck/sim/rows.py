"""Accesses of indexing operators: the rows selected by the index, whose values the simulator has."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from syncheck.semantics.operators import ELEMENTWISE, ROWS

_MAX_VALUES = 1 << 14
"""Limit on the size of an index. Longer indices are not analyzed, and any row may be accessed."""
_MAX_BLOCKS = 64
"""Limit on the blocks of one access. Beyond it, the closest blocks are merged, including the gaps between them."""


class Block(NamedTuple):
    """Adjacent rows: their start, in the terms of the tensor's `storage_offset`, and their shape.

    Attributes:
        is_partial: only an unknown subset of the rows is accessed.
    """

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    is_partial: bool = False


class Selection(NamedTuple):
    """An index into some dimensions of a tensor.

    Attributes:
        dims: the indexed dimensions.
        indices: a tensor of positions for each of them. The tensors can be broadcast to one shape.
        sizes: the accessed size of each dimension of the tensor that is not indexed.
    """

    dims: Sequence[int]
    indices: Sequence[torch.Tensor]
    sizes: Sequence[int]


def blocks_of(tensor: torch.Tensor, selection: Selection) -> list[Block] | None:
    """Return the blocks of a tensor that an index selects, or None if there are too many.

    Called while torch's operators are not observed.
    """
    if sum(index.numel() for index in selection.indices) > _MAX_VALUES:
        return None
    offsets = torch.zeros((), dtype=torch.int64)
    for dim, index in zip(selection.dims, selection.indices, strict=True):
        positions = index.to(torch.int64)
        offsets = offsets + torch.where(positions < 0, positions + tensor.size(dim), positions) * tensor.stride(dim)
    rest = [dim for dim in range(tensor.dim()) if dim not in selection.dims]
    sizes, strides = tuple(selection.sizes[dim] for dim in rest), tuple(tensor.stride(dim) for dim in rest)
    step = max(1, tensor.stride(selection.dims[-1]))
    runs = _merged_runs(list(_runs(torch.unique(offsets).tolist(), step)), step)
    begin = int(tensor.storage_offset())
    return [
        Block(begin + start, (count, *sizes), (step, *strides), is_partial)
        for first, length, is_partial in runs
        for start, count in _aligned(first, length, step)
    ]


def selection_of(base: str, tensor: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Selection | None:
    """Return the part of an operator's first tensor that its index selects, or None if it accesses the whole tensor.

    Called while torch's operators are not observed.

    Args:
        base: the operator's base name.
        tensor: its first tensor.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    if tensor.layout is not torch.strided or not tensor.dim():
        return None
    dim_position, position = ROWS[base]
    index = args[position] if position < len(args) else kwargs.get("index", kwargs.get("indices"))
    if isinstance(index, list | tuple):
        return _multi_index(tensor, index)
    if not isinstance(index, torch.Tensor):
        return None
    if base in _WITHOUT_DIM:
        return _WITHOUT_DIM[base](tensor, index)
    dim = 0 if dim_position is None else int(args[dim_position] if dim_position < len(args) else kwargs["dim"])
    dim %= tensor.dim()
    if base in ELEMENTWISE and index.dim() == tensor.dim():
        return _elements(dim, index)
    return Selection([dim], [index], tensor.shape)


def _masked(tensor: torch.Tensor, mask: torch.Tensor) -> Selection | None:
    """Return the elements that a mask selects, or None if the tensor is broadcast to the mask."""
    try:
        return _multi_index(tensor, [mask.expand_as(tensor)])
    except RuntimeError:
        return None


def _flat(tensor: torch.Tensor, index: torch.Tensor) -> Selection:
    """Return the elements at positions that count those of the whole tensor."""
    return Selection(range(tensor.dim()), torch.unravel_index(index % tensor.numel(), tensor.shape), ())


_WITHOUT_DIM = {"masked_select": _masked, "take": _flat, "put_": _flat}
"""Operators whose index is a mask, or counts the elements of the whole tensor. Source: TensorAdvancedIndexing.cpp."""


def _elements(dim: int, index: torch.Tensor) -> Selection:
    """Return the selection of an index with one position in a dimension for each element."""
    dims = range(index.dim())
    aranges = [torch.arange(index.size(d)).view([-1 if d == other else 1 for other in dims]) for d in dims]
    return Selection(dims, [index if d == dim else aranges[d] for d in dims], ())


def _multi_index(tensor: torch.Tensor, index_tensors: Sequence[torch.Tensor | None]) -> Selection | None:
    """Parse an index like `tensor[i, :, j]`. A mask stands for the positions where it is true."""
    dims: list[int] = []
    indices: list[torch.Tensor] = []
    dim = 0
    for index in index_tensors:
        if index is None:
            dim += 1
            continue
        is_mask = index.dtype in {torch.bool, torch.uint8}
        parts = index.nonzero(as_tuple=True) if is_mask else (index,)
        indices += parts
        dims += range(dim, dim + len(parts))
        dim += len(parts)
    return Selection(dims, indices, tensor.shape) if dims else None


def _runs(offsets: list[int], step: int) -> Iterator[tuple[int, int]]:
    """Yield (first offset, count) for each run of consecutive offsets. The offsets are sorted."""
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


def _merged_runs(runs: list[tuple[int, int]], step: int) -> list[tuple[int, int, bool]]:
    """Merge the runs with the smallest gaps until there are at most `_MAX_BLOCKS`; return which ones contain gaps."""
    if len(runs) <= _MAX_BLOCKS:
        return [(first, count, False) for first, count in runs]
    gaps = [after[0] - before[0] - before[1] * step for before, after in pairwise(runs)]
    largest = sorted(range(len(gaps)), key=gaps.__getitem__)[1 - _MAX_BLOCKS :]
    joined, begin = [], 0
    for end in [*sorted(largest), len(runs) - 1]:
        first, (last, count) = runs[begin][0], runs[end]
        joined.append((first, -((first - last) // step) + count, end > begin))
        begin = end + 1
    return joined


def _aligned(first: int, count: int, step: int) -> Iterator[tuple[int, int]]:
    """Split a run at multiples of powers of two, so that different runs share most of their blocks."""
    position = first // step
    while count:
        size = 1 << (count.bit_length() - 1)
        if position:
            size = min(size, position & -position)
        yield first, size
        first, position, count = first + size * step, position + size, count - size
