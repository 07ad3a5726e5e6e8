"""What the program calls a container that holds a thing among others of its kind."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import Any

from syncheck.instrument.naming import name_in_frame

_MOST_MEMBERS = 256
_SEQUENCES = (list, tuple, deque)


def group_in_frame(frame: FrameType, of: Callable[[Any], int], wanted: int) -> str:
    """Return what a comprehension can go through in a frame to meet a thing: "streams", "self.streams.values()".

    Args:
        frame: the function, as it runs.
        of: returns the id of a thing; 0 for what every item has to be and is not.
        wanted: the id of the thing.

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
    """Return the items of a list or the like, without code of the program; none of anything else, or of too many."""
    base = next((kind for kind in _SEQUENCES if issubclass(type(value), kind)), None)
    return _few(base.__iter__(value)) if base is not None else []


def _values_of(value: Any) -> list[Any]:
    return _few(dict.values(value)) if issubclass(type(value), dict) else []


def _few(items: Any) -> list[Any]:
    found = list(islice(items, _MOST_MEMBERS + 1))
    return found if len(found) <= _MOST_MEMBERS else []
