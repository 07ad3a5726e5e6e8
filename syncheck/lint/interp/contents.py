"""The contents of values, and simple properties of them."""

import ast

from syncheck.lint.interp.values import (
    UNKNOWN,
    Attribute,
    Constant,
    Event,
    Function,
    Graph,
    Instance,
    Key,
    Mapping,
    Module,
    Native,
    Optimizer,
    Partial,
    Sequence,
    Stream,
    Tensor,
    Value,
    Work,
)
from syncheck.lint.nodes import WAITS, names

_CONTAINERS = (Sequence, Mapping)


def any_items(owner: Sequence) -> Sequence:
    """Return a slice of a list with an unknown bound, which may select any of its items."""
    return Sequence(list(owner.items), is_open=True)


def tensors_in(value: Value | None, depth: int = 3) -> list[Tensor]:
    """Return the tensors in a value, including those in lists and dictionaries."""
    if isinstance(value, Tensor):
        return [value]
    if value.__class__ is Value or not depth or not isinstance(value, _CONTAINERS):
        return []
    inside = value.items.values() if isinstance(value, Mapping) else value.items
    return [tensor for item in inside for tensor in tensors_in(item, depth - 1)]


def parameters_of(owner: Module | Optimizer, name: str) -> Value | None:
    """Return an attribute of a layer or an optimizer with its parameters, or None for any other attribute."""
    if isinstance(owner, Optimizer):
        return Sequence([Mapping({"params": Sequence(list(owner.parameters))})]) if name == "param_groups" else None
    return owner.weight or UNKNOWN if name in {"weight", "bias"} else None


def handles_in(value: Value | None, depth: int = 3) -> list[Work]:
    """Return the collective handles in a value, including those in containers, objects, functions and methods."""
    inside: list[Value] = []
    match value:
        case Work():
            return [value]
        case Sequence() | Mapping():
            inside = held_by(value)
        case Attribute(owner=owner):
            inside = [owner]
        case Instance(attributes=attributes):
            inside = list(attributes.values())
        case Function(scope=scope):
            used = names(value.node)
            inside = [item for name, item in scope.names.items() if name in used]
        case _:
            pass
    return [work for item in inside for work in handles_in(item, depth - 1)] if depth else []


def keys_of(mapping: Mapping) -> list[Value]:
    """Return the keys of a dictionary."""
    return [key if isinstance(key, Key) else Constant(key) for key in mapping.items]


def is_key(value: object) -> bool:
    """Return whether a constant can be a key of a dictionary."""
    return isinstance(value, int | str | float | bool | tuple | None)


def is_plain(value: Value) -> bool:
    """Return whether a value contains neither code nor anything that can be waited for."""
    if isinstance(value, Sequence | Mapping):
        return all(map(is_plain, held_by(value)))
    return not isinstance(value, Stream | Event | Work | Instance | Partial | Function | Native)


def held_by(value: Value) -> list[Value]:
    """Return the values in a container, or the arguments of a partial call."""
    match value:
        case Sequence(items=items):
            return items
        case Mapping(items=items):
            return list(items.values())
        case Partial(args=args, kwargs=kwargs):
            return [*args, *kwargs.values()]
        case _:
            return []


def open_containers(instance: Instance) -> None:
    """Let the empty containers of an object have unknown contents, which other code may have added."""
    for value in instance.attributes.values():
        if isinstance(value, Sequence | Mapping):
            value.is_open |= not value.items


def note_earlier_use(value: Value, depth: int = 3) -> None:
    """Note that other code has used an object before: its events may have been recorded."""
    if isinstance(value, Event):
        value.made = None
    inside = list(value.attributes.values()) if isinstance(value, Instance) else held_by(value)
    for item in inside if depth else ():
        note_earlier_use(item, depth - 1)


def owner_of_method(value: Value) -> Value:
    """Return the handle whose waiting method a value is, as in `to_thread(event.synchronize)`, else the value."""
    match value:
        case Attribute(owner=Stream() | Event() | Work() as owner, name=name) if name in WAITS:
            return owner
        case _:
            return value


def graphs_in(value: Value) -> list[Graph]:
    """Return the CUDA graph that a value is, or those that a container or an object holds."""
    inside = list(value.attributes.values()) if isinstance(value, Instance) else held_by(value)
    return [item for item in (value, *inside) if isinstance(item, Graph)]


def function_of(value: Value) -> ast.AST | None:
    """Return the definition of a function of the program or of a bound method; None for any other value."""
    found = value.function if isinstance(value, Partial) else value
    return found.node if isinstance(found, Function) else None
