"""Items of containers under unknown keys and indices. Equal expressions stand for the same item."""

import ast
from collections.abc import Callable

from syncheck.lint import nodes
from syncheck.lint.interp.contents import any_items, graphs_in, is_key
from syncheck.lint.interp.decisions import Decisions, words_of_source
from syncheck.lint.interp.identities import has_identity
from syncheck.lint.interp.values import (
    UNKNOWN,
    Constant,
    Event,
    Instance,
    Key,
    Mapping,
    Sequence,
    Stream,
    Tensor,
    Value,
)

_UNIQUE = (Event, Stream)
_ALIASED = (*_UNIQUE, Instance)
"""Kinds of items that another index may stand for, too: treating them as two could show a wait that does not exist."""


class Picks:
    """Finds items under unknown keys.

    Args:
        decisions: counts how often names were bound.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._n_bound = decisions.n_bound

    def key(self, value: Value, node: ast.expr | None) -> Key | None:
        """Return the key for an expression with an unknown value; None if the value is known."""
        if isinstance(value, Key):
            return value
        if isinstance(value, Constant) or node is None:
            return None
        text = nodes.text(node)
        own = value if has_identity(value) else UNKNOWN
        return Key(text, tuple(self._n_bound.get(word, 0) for word in words_of_source(text)), own)

    def existing_key(self, owner: Mapping, value: Value, node: ast.expr | None) -> object:
        """Return the key of an existing item of a dictionary; None if unknown.

        Of the graphs in a dictionary, an unknown key finds the first one: they usually have the same inputs.
        """
        key = self.key(value, node)
        place = known_key(owner, value, key)
        if place is None and key is not None and owner.items and all(map(graphs_in, owner.items.values())):
            place = next(iter(owner.items))
            for graph in graphs_in(owner.items[place]):
                graph.replays.is_picked = True
        return place

    def has(self, owner: Mapping, value: Value, node: ast.expr) -> bool:
        """Return whether a dictionary certainly has an item under a key."""
        return known_key(owner, value, self.key(value, node)) is not None

    def item(self, owner: Mapping | Sequence, value: Value, node: ast.expr | None) -> Value | None:
        """Return the item under a key; None if it is unknown which item that is. An unknown slice may be any items."""
        if isinstance(owner, Sequence) and isinstance(node, ast.Slice):
            return any_items(owner)
        key = self.key(value, node)
        if isinstance(owner, Mapping):
            place = self.existing_key(owner, value, node)
            if place is None and isinstance(value, Constant) and is_key(value.value):
                return _made_alike(owner, value.value)
            if place is None and isinstance(node, ast.Name) and key is not None:
                return _picked_alike(owner, key)
            return None if place is None else owner.items.get(place)
        index = _index(owner, key) if key is not None else None
        return None if index is None else owner.items[index]


def _made_alike(owner: Mapping, key: object) -> Value | None:
    """Return the item for a constant key of a dictionary comprehension, so that each key has an item of its own."""
    made = next((known for known in owner.items if isinstance(known, Key) and not known.text), None)
    if made is None:
        return None
    owner.items[key] = found = owner.items.pop(made)
    owner.alike = [key if known is made else known for known in owner.alike]
    return found


def _picked_alike(owner: Mapping, key: Key) -> Value | None:
    """Return an item of a dictionary comprehension for a variable. The iterations of a loop take turns."""
    if not owner.alike or not key.text:
        return None
    place = next((place for place, known in enumerate(owner.picked) if known.is_like(key)), len(owner.picked))
    owner.picked[place:] = owner.picked[place:] or [key]
    return owner.items.get(owner.alike[place % len(owner.alike)])


def known_key(owner: Mapping, value: Value, key: Key | None) -> object:
    """Return the key of an existing item of a dictionary; None if unknown."""
    if isinstance(value, Constant):
        return value.value if is_key(value.value) and value.value in owner.items else None
    if key is None or key in owner.items:
        return key
    return next((known for known in owner.items if isinstance(known, Key) and known.is_like(key)), None)


def _index(owner: Sequence, key: Key) -> int | None:
    """Return the position of the item that an unknown index stands for. For tensors, each new index gets a new item."""
    first = owner.items[0] if owner.items else None
    is_mixed = any(type(item) is not type(first) for item in owner.items)
    if is_mixed or not isinstance(first, Tensor | Event | Stream | Instance):
        return None
    known = next((place for place, other in enumerate(owner.picked) if other.is_like(key)), None)
    if known is not None:
        return known
    if len(owner.picked) >= (1 if isinstance(first, _ALIASED) else len(owner.items)):
        for event in (event for item in owner.items for event in _events_of(item)):
            event.escaped = True
        return None
    for item in owner.items if isinstance(first, Event) else ():
        if isinstance(item, Event):
            item.escaped |= item.recorded is None  # another iteration may have recorded it
    owner.picked.append(key)
    return len(owner.picked) - 1


def _events_of(item: Value) -> list[Event]:
    """Return the event that an item is, or the events of the object that it is."""
    held = item.attributes.values() if isinstance(item, Instance) else [item]
    return [event for event in held if isinstance(event, Event)]


def forget_items(owner: Mapping | Sequence, escape: Callable[[Value], None]) -> None:
    """Forget a container's items: one of them, unknown which, was replaced or removed."""
    for item in owner.items.values() if isinstance(owner, Mapping) else owner.items:
        escape(item)
    owner.is_open = True
    if isinstance(owner, Mapping):
        owner.items.clear()
    else:
        owner.items[:] = [item if isinstance(item, _UNIQUE) else UNKNOWN for item in owner.items]


def put(owner: Mapping, key: Key, value: Value, escape: Callable[[Value], None]) -> None:
    """Put an item under an unknown key, which may equal any constant key but no other unknown key."""
    place = known_key(owner, key, key)
    if place is None:
        for known in [known for known in owner.items if not isinstance(known, Key)]:
            escape(owner.items.pop(known))
    owner.is_open = True
    owner.items[place or key] = value
