"""The parts of tensors as byte ranges: known rows, and unknown parts.

An unknown part that an index selects is a range of negative numbers: the same index selects the same part.
"""

from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

from syncheck.hb.ids import AllocationId, ViewId
from syncheck.lint.interp.identities import has_identity
from syncheck.lint.interp.values import WHOLE, Call, Constant, Part, Tensor, Value
from syncheck.lint.interp.values import Sequence as Items
from syncheck.sanitizer.session import Session

_ROW = 1 << 16
_ROWS = 1 << 10
_READ_PART, _WRITTEN_PARTS = _ROW * _ROWS, _ROW * _ROWS + 1
_MAX_PARTS = 1 << 12
N_BYTES = _WRITTEN_PARTS + _MAX_PARTS
"""The size in bytes of the range that stands for a whole tensor."""
_Key: TypeAlias = Value | int | tuple[object, ...]
"""What identifies an index: the value itself, a number, or the memory of a tensor."""


class Parts:
    """Maps parts of tensors to views.

    Args:
        session: the session that creates the views.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._views: dict[tuple[int, int], ViewId] = {}
        self._n_unknown = 0
        self._at: dict[tuple[Part, _Key], Part] = {}
        self._of_numbers = set[AllocationId]()

    def view(self, part: Part, *, is_write: bool) -> ViewId:
        """Return the view of a part of a tensor."""
        if part is None:
            start, stop = self._unknown_part() if is_write else (_READ_PART, _WRITTEN_PARTS)
        elif part[0] < 0:
            start, stop = _WRITTEN_PARTS - part[1], _WRITTEN_PARTS - part[0]
        elif part == WHOLE:
            start, stop = 0, N_BYTES
        else:
            start, stop = min(part[0], _ROWS) * _ROW, min(part[1], _ROWS) * _ROW
        known = self._views.get((start, stop))
        if known is None:
            known = self._views[start, stop] = self._session.view(start, (stop - start,), (1,), 1, "")
        return known

    def _unknown_part(self) -> tuple[int, int]:
        """Return bytes that no other access writes, because two unknown parts need not overlap."""
        number = self._next()
        return _WRITTEN_PARTS + number, _WRITTEN_PARTS + number + 1

    def _next(self) -> int:
        self._n_unknown = (self._n_unknown + 1) % _MAX_PARTS
        return self._n_unknown

    def at(self, index: Value, inside: Part = WHOLE) -> Part:
        """Return the part that an index of unknown value selects, the same at each use; None for any other index.

        The values of a tensor are unknown, too.

        Args:
            index: the index.
            inside: the part of the tensor that is indexed. Items of it at known indices are such parts, too.
        """
        key: _Key = index
        if isinstance(index, Tensor) and index.block.ident:
            key = (index.block.ident,)  # not the tensor, which would be kept alive
        elif isinstance(index, Constant) and inside not in {WHOLE, None} and index.value.__class__ is int:
            key = index.value
        elif not has_identity(index) or inside is None:
            return None
        return self._of_index(inside, key)

    def _of_index(self, inside: Part, key: _Key) -> Part:
        """Return the part that stands for an index, the same for equal ones."""
        if (inside, key) not in self._at:
            number = self._next()
            self._at[inside, key] = (-number - 1, -number)
        return self._at[inside, key]

    def note_made(self, ident: AllocationId, given: Sequence[Value]) -> None:
        """Note from which values a new tensor was made."""
        if ident and given and all(map(_is_written_out, given)):
            self._of_numbers.add(ident)

    def strided(self, call: Call) -> Part:
        """Return the part that `as_strided` selects: the same for equal numbers, and None for unknown ones."""
        given = [*call.args, *call.kwargs.values()]
        if not all(map(_is_written_out, given)):
            return None
        return self._of_index(WHOLE, ("as_strided", *map(_numbers, given)))

    def _is_made_of_numbers(self, index: Value | None) -> TypeGuard[Tensor]:
        return isinstance(index, Tensor) and index.block.ident in self._of_numbers

    def rows(self, index: Value | None, inside: Part) -> Part:
        """Return the part that a method such as `index_select` accesses.

        An index that was made of numbers selects a part of its own. The rows of others may be the same, although their
        values are unknown: they often come from one table of free rows.
        """
        if isinstance(index, Items):  # one index for each dimension
            known = tuple(item.block.ident for item in index.items if self._is_made_of_numbers(item))
            return self._of_index(inside, known) if len(known) == len(index.items) else inside
        return self.at(index, inside) if self._is_made_of_numbers(index) else inside


def _is_written_out(value: Value) -> bool:
    """Return whether all numbers in a value are known."""
    if isinstance(value, Items):
        return not value.is_open and all(map(_is_written_out, value.items))
    return isinstance(value, Constant)


def _numbers(value: Value) -> object:
    """Return the numbers in a value whose numbers are all known."""
    return tuple(map(_numbers, value.items)) if isinstance(value, Items) else getattr(value, "value", None)
