"""Lists, queues, dictionaries and generators. None of them changes in a branch that is run only for ordering."""

import ast
from itertools import pairwise

from syncheck.lint.interp.contents import handles_in, held_by, is_key, keys_of
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.picks import forget_items, put
from syncheck.lint.interp.registry import models_methods
from syncheck.lint.interp.values import NONE, UNKNOWN, Call, ClockReading, Constant, Generator, Mapping, Sequence, Value
from syncheck.lint.models.layers import call_list_method

_ADDING = frozenset("append add put appendleft put_nowait".split())
_TAKING = frozenset("pop popleft get get_nowait".split())
_TAKING_FIRST = _TAKING - {"pop"}
_MIXING = frozenset("insert remove sort extend rotate".split())
_ASKING = frozenset("index count __len__ empty qsize".split())


@models_methods(Sequence)
def _sequence(evaluator: Evaluator, owner: Sequence, name: str, call: Call) -> Value | None:
    """Call a method of a list of layers, or of another list, a set or a queue."""
    found = call_list_method(evaluator, owner, name, call)
    return _call_plain(evaluator, owner, name, call) if found is None else found


def _call_plain(evaluator: Evaluator, owner: Sequence, name: str, call: Call) -> Value | None:
    if evaluator.machine.ordering_only or name in _ASKING:
        return UNKNOWN
    first = call.get("", 0)
    if name in _TAKING:
        return _popped(owner, name, first)
    if name == "copy":
        return Sequence(list(owner.items), owner.is_open)
    for work in handles_in(first) if evaluator.collectives.held else ():
        evaluator.collectives.store(work)
    if name in _ADDING and first is not None:
        machine = evaluator.machine
        item = machine.graph_results.taken(first, machine.site)
        _add(owner, item, at_start=name == "appendleft")
        _note_interval(machine, first)
        machine.graph_results.added(owner, item, machine.site, _argument(call))
    elif name == "extend" and isinstance(first, Sequence | Generator):
        owner.items += evaluator.listed(first).items
    elif name in {"clear", "reverse"}:
        getattr(owner.items, name)()
    else:
        _mix(owner, name)
        return None
    return NONE


def _note_interval(machine: Machine, item: Value) -> None:
    """Let clock readings that are stored together, such as `(start, end)`, count as an interval, which they are for."""
    readings = [value for value in held_by(item) if isinstance(value, ClockReading)]
    for earlier, later in pairwise(readings):
        machine.subtract_clock(later, earlier)


def _add(owner: Sequence, item: Value, *, at_start: bool) -> None:
    """Add an item at one end. A full deque drops the item at the other end."""
    owner.items.insert(0 if at_start else len(owner.items), item)
    if 0 < owner.limit < len(owner.items):
        del owner.items[-1 if at_start else 0]


@models_methods(Mapping)
def _mapping(evaluator: Evaluator, owner: Mapping, name: str, call: Call) -> Value | None:
    """Call a method of a dictionary."""
    key = call.get("", 0)
    if name == "setdefault" and key is not None:
        return _with_default(evaluator, owner, key, call)
    if name in {"get", "pop"} and isinstance(key, Constant):
        return _entry(evaluator, owner, name, key, call)
    if name in {"get", "pop"} and key is not None:
        return _unknown_entry(evaluator, owner, name, key, call)
    if name == "clear" and not evaluator.machine.ordering_only:
        owner.items.clear()
        return NONE
    return _listed(owner, name)


def _listed(owner: Mapping, name: str) -> Value | None:
    """Call a method that returns the contents of a dictionary."""
    if name == "values":
        return Sequence(list(owner.items.values()), owner.is_open)
    if name == "keys":
        return Sequence(keys_of(owner), owner.is_open)
    if name == "items":
        pairs = zip(keys_of(owner), owner.items.values(), strict=True)
        return Sequence([Sequence([key, value]) for key, value in pairs], owner.is_open)
    return None


def _with_default(evaluator: Evaluator, owner: Mapping, key: Value, call: Call) -> Value:
    """Return the item under a key, which is added if it is missing."""
    node = _argument(call)
    place = evaluator.picks.existing_key(owner, key, node)
    if place is not None:
        return owner.items.get(place, UNKNOWN)
    if owner.is_open and isinstance(key, Constant):
        return UNKNOWN
    made = call.get("default", 1) or NONE
    if evaluator.machine.ordering_only:
        return made
    unknown = evaluator.picks.key(key, node)
    if isinstance(key, Constant) and is_key(key.value):
        owner.items[key.value] = made
    elif unknown is not None:
        put(owner, unknown, made, evaluator.escape)
    else:
        forget_items(owner, evaluator.escape)
    return made


def _entry(evaluator: Evaluator, owner: Mapping, name: str, key: Constant, call: Call) -> Value:
    if key.value not in owner.items:
        return UNKNOWN if owner.is_open else call.get("default", 1) or NONE
    if name == "pop" and not evaluator.machine.ordering_only:
        return owner.items.pop(key.value)
    return owner.items[key.value]


def _unknown_entry(evaluator: Evaluator, owner: Mapping, name: str, key: Value, call: Call) -> Value:
    """Return the item under an unknown key. If an unknown item is removed, any item may be gone."""
    place = evaluator.picks.existing_key(owner, key, _argument(call))
    if place is not None:
        found = owner.items.get(place, UNKNOWN)
        if name == "pop" and not evaluator.machine.ordering_only:
            del owner.items[place]
        return found
    if name == "pop" and not evaluator.machine.ordering_only:
        forget_items(owner, evaluator.escape)
    return UNKNOWN


def _argument(call: Call) -> ast.expr | None:
    """Return the expression of the item or the key that a method gets."""
    return call.node.args[0] if isinstance(call.node, ast.Call) and call.node.args else None


@models_methods(Generator)
def _generator(evaluator: Evaluator, owner: Generator, name: str, call: Call) -> Value | None:
    del evaluator, call
    return next(owner.values, UNKNOWN) if name in {"send", "__next__"} else UNKNOWN


def _popped(owner: Sequence, name: str, index: Value | None) -> Value:
    position = 0 if name in _TAKING_FIRST else -1
    if index is not None and name == "pop":
        if not isinstance(index, Constant) or not isinstance(index.value, int):
            return UNKNOWN
        position = index.value
    if owner.is_open or not -len(owner.items) <= position < len(owner.items):
        return UNKNOWN
    return owner.items.pop(position)


def _mix(owner: Sequence, name: str) -> None:
    """Forget the items if a method rearranges them."""
    if name in _MIXING:
        owner.is_open = True
        owner.items.clear()
