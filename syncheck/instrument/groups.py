"""Finds names of containers that hold an object among others of its kind."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import Any

from syncheck.instrument.naming import name_in_frame

_MAX_MEMBERS = 256
_SEQUENCES = (list, tuple, deque)


def group_in_frame(frame: FrameType, of: Callable[[Any], int], wanted: int) -> str:
    """Return an iterable expression that includes an object in a frame: "streams", "self.streams.values()".

    Args:
        frame: the running function.
        of: returns the id of an object; 0 if it is not of the required kind.
        wanted: the id of the object.

    Returns:
        The expression; "" if there is none.
    """

    def is_group(members: list[Any]) -> bool:
        idents = list(map(of, members))
        return wanted in idents and all(idents)

    name = name_in_frame(frame, lambda value: is_group(_items_of(value)))
    if name:
        return name
    name = name_in_frame(frame, lambda value: is_group(_values_of(value)))
    return f"{name}.values()" if name else ""


def _items_of(value: Any) -> list[Any]:
    """Return the items of a list, tuple or deque, without running code of the program; [] for others, or too many."""
    base = next((kind for kind in _SEQUENCES if issubclass(type(value), kind)), None)
    return _few(base.__iter__(value)) if base is not None else []


def _values_of(value: Any) -> list[Any]:
    return _few(dict.values(value)) if issubclass(type(value), dict) else []


def _few(items: Any) -> list[Any]:
    found = list(islice(items, _MAX_MEMBERS + 1))
    return found if len(found) <= _MAX_MEMBERS else []
