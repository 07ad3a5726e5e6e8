"""The rows of a tensor that an index or a method selects.

A part that is known to begin with the tensor's first element is represented by the first row: two such parts overlap.
"""

from typing import TypeGuard

from syncheck.lint.interp.values import WHOLE, Call, Constant, Part, Sequence, Value
from syncheck.semantics.operators import ROWS

BEGINNING = slice(None, object())
"""`[:n]` with an unknown `n`: at least the first row."""
_FIRST: Part = (0, 1)


def selected(index: Value) -> Part:
    """Return the rows that `tensor[index]` selects; None for an unknown part."""
    items = index.items if isinstance(index, Sequence) else [index]
    values = [item.value for item in items if isinstance(item, Constant)]
    if len(values) < len(items) or not values:
        return None
    if len(values) > 1:
        return _FIRST if all(_begins(value) for value in values) else None
    (value,) = values
    if value is Ellipsis or value is None:
        return WHOLE
    if isinstance(value, slice):
        return _of_slice(value)
    return (value, value + 1) if _is_row(value) else None


def of_method(name: str, call: Call) -> Part:
    """Return the rows that `narrow(dim, start, length)` or `select(dim, index)` selects; None for other methods."""
    dim, start = _constant(call, "dim", 0), _constant(call, "start" if name == "narrow" else "index", 1)
    length = _constant(call, "length", 2) if name == "narrow" else 1
    if name not in {"narrow", "select"} or not _is_row(start):
        return None
    if dim == 0 and _is_row(length):
        return (start, start + length)
    return _FIRST if start == 0 else None


def index_of(name: str, call: Call) -> Value | None:
    """Return the index that selects the rows, or the elements, that a method accesses; None for other methods."""
    dim, index = ROWS.get(name, (None, 0))
    if name == "index_put_":
        indices = call.get("indices", 0)
        return indices.items[0] if isinstance(indices, Sequence) and len(indices.items) == 1 else indices
    return None if dim is None else call.get("index", index - 1)  # positions in `ROWS` count the tensor


def is_strided(index: Value) -> bool:
    """Return whether the selection of an index is known not to be contiguous: `[:, :64]`, `[::2]`."""
    items = index.items if isinstance(index, Sequence) else [index]
    values = [item.value for item in items if isinstance(item, Constant)]
    if len(values) < len(items) or any(value is None or value is Ellipsis for value in values):
        return False
    slices = [value for value in values if isinstance(value, slice)]
    if any(part.step not in {None, 1} for part in slices):
        return True
    rest = values[next((i for i, value in enumerate(values) if not _is_row(value)), len(values)) + 1 :]
    return any(_is_row(value) or (isinstance(value, slice) and value != slice(None)) for value in rest)


def _of_slice(value: slice) -> Part:
    if value is BEGINNING:
        return _FIRST
    start, stop = value.start or 0, value.stop
    if not _is_row(start) or not (stop is None or _is_row(stop)) or value.step not in {None, 1}:
        return None
    return (start, WHOLE[1] if stop is None else stop)


def _begins(value: object) -> bool:
    """Return whether one item of an index selects the first element of its dimension."""
    if isinstance(value, slice):
        return value is BEGINNING or (not value.start and (value.stop is None or _is_row(value.stop)))
    return value is Ellipsis or value is None or (_is_row(value) and value == 0)


def _constant(call: Call, name: str, position: int) -> object:
    value = call.get(name, position)
    return value.value if isinstance(value, Constant) else None


def _is_row(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
