"""Finds the program's own names for its streams, events and tensors."""

import ast
import dis
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from threading import local
from types import CodeType, FrameType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from syncheck.source.frames import locals_of
from syncheck.source.lines import is_user_file, position
from syncheck.source.targets import passed_on_in, target_in
from syncheck.source.text import parse_module, source_line, source_text

_Named = tuple[str, Any]
_ValuesOf = Callable[[FrameType], Iterator[_Named]]
_MAX_ITEMS = 64
_shared = local()


def bound_name(found: tuple[CodeType, int] | None) -> str:
    """Return the target of the assignment whose value an instruction creates, or the operand of a `del`.

    Args:
        found: code object and instruction offset.

    Returns:
        The name, such as "copy", "self.stream" or "streams[...]"; "" if nothing is bound.
    """
    if found is None:
        return ""
    code, lasti = found
    line, _, column, _ = position(code, lasti)
    return _target(code.co_filename, line, -1 if column is None else column)


def is_passed_on(found: tuple[CodeType, int] | None) -> bool:
    """Return whether the result of an instruction is passed to a call or returned by a lambda, instead of bound."""
    if found is None:
        return False
    code, lasti = found
    line, _, column, _ = position(code, lasti)
    return column is not None and _is_passed_on(code.co_filename, line, column)


def stored_name(code: CodeType, lasti: int) -> str:
    """Return the variable that an instruction binds; "" if it binds none, or two, as some do from Python 3.13 on."""
    operation = dis.opname[code.co_code[lasti]]
    line, _, column, _ = position(code, lasti)
    if not operation.startswith("STORE_") or operation == "STORE_FAST_STORE_FAST" or column is None:
        return ""
    return _stored(code.co_filename, line, column)


@lru_cache(maxsize=4096)
def _stored(filename: str, line: int, column: int) -> str:
    """Return the variable that is bound at a position; for example "b" in `a, b = pair`."""
    tree = tree_of(filename)
    nodes = () if tree is None else ast.walk(tree)
    stored = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return next((node.id for node in stored if (node.lineno, node.col_offset) == (line, column)), "")


def counted_name(name: str, iteration: int) -> str:
    """Return the name of the object that an iteration (from 0) of a comprehension creates, such as "pairs[2][0]"."""
    base, is_made_often, item = name.partition("[...]")
    if not is_made_often:
        return name
    if not base.startswith("("):
        return f"{base}[{iteration}]{item}"
    targets = base.strip("()").split(", ")  # a, b = (make() for _ in range(2))
    return targets[iteration % len(targets)] + item


@lru_cache(maxsize=256)
def tree_of(filename: str) -> ast.Module | None:
    """Return the syntax tree of a file; None if it cannot be read."""
    try:
        return parse_module(source_text(filename))
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _is_passed_on(filename: str, line: int, column: int) -> bool:
    tree = tree_of(filename)
    return tree is not None and passed_on_in(ast.walk(tree), line, column)


@lru_cache(maxsize=4096)
def _target(filename: str, line: int, column: int) -> str:
    tree = tree_of(filename)
    return "" if tree is None else target_in(ast.walk(tree), line, column)


def name_of_tensor(frame: FrameType | None, is_wanted: Callable[[Any], bool]) -> str:
    """Return a name for a tensor in the innermost user frames: "x", "self.weight", "batch['image'][0]"."""
    frames = list(islice(_user_frames(frame), 3))
    for values_of in (_variables, _attributes, _items_of_items):
        for user_frame in frames:
            names = [name for name, value in _listed(values_of, user_frame) if is_wanted(value)]
            if names:
                return _best_name(names, user_frame)
    return ""


def _user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def name_in_frame(frame: FrameType, is_wanted: Callable[[Any], bool]) -> str:
    """Return a name for a value in one frame: "x", "self.stream", "loader.stream", "self.streams[0]"; "" if none.

    If there are several, a name whose words occur in the function itself takes precedence.
    """
    code = frame.f_code
    names_in_code = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    found = ""
    for values_of in (_variables, _attributes, _attributes_of_items, _items_of_items):
        for name, value in _listed(values_of, frame):
            if is_wanted(value):
                found = found or name
                if set(re.findall(r"[A-Za-z_]\w*", name)) <= names_in_code:
                    return name
    return found


@contextmanager
def listed_once() -> Iterator[None]:
    """List the values in a frame only once in a block, during which no code of the program runs in this thread."""
    before = getattr(_shared, "values", None)
    _shared.values = {}
    try:
        yield
    finally:
        _shared.values = before  # keeps no value alive


def _listed(values_of: _ValuesOf, frame: FrameType) -> Iterable[_Named]:
    values: dict[tuple[_ValuesOf, FrameType], list[_Named]] | None = getattr(_shared, "values", None)
    if values is None:
        return values_of(frame)
    if (values_of, frame) not in values:
        values[values_of, frame] = list(values_of(frame))
    return values[values_of, frame]


def _attributes(frame: FrameType) -> Iterator[_Named]:
    """Yield names and values of the attributes of the program's objects, one level deep."""
    for name, value in (*locals_of(frame).items(), *frame.f_globals.items()):
        for key, item in _held_by(value) if _is_program_name(name) else ():
            yield f"{name}.{key}", item
            yield from ((f"{name}.{key}{part}", inner) for part, inner in _items(item))


def _items_of_items(frame: FrameType) -> Iterator[_Named]:
    """Yield names and values of the items of containers in containers, such as "batch['images'][0]"."""
    for name, value in (*_listed(_variables, frame), *_listed(_attributes, frame)):
        yield from ((f"{name}{part}", item) for part, item in _items(value))


def _attributes_of_items(frame: FrameType) -> Iterator[_Named]:
    """Yield names and values of the attributes of objects in containers, such as "stages[0].stream"."""
    for name, value in _listed(_variables, frame):
        for part, item in _items(value):
            yield from ((f"{name}{part}.{key}", inner) for key, inner in _held_by(item))


def _held_by(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an object of the program, with their values."""
    if issubclass(type(value), ModuleType | type):  # `isinstance` may run code of the program
        return []
    attributes = attributes_of(value)
    return (_slots_of(value) if attributes is None else list(attributes.items()))[:_MAX_ITEMS]


def attributes_of(value: Any) -> dict[str, Any] | None:
    """Return an object's attributes without running code of the program; None if it has no `__dict__`."""
    found = (vars(base).get("__dict__") for base in type(value).__mro__)
    descriptor: Any = next((one for one in found if one is not None), None)
    if type(descriptor) not in {GetSetDescriptorType, MemberDescriptorType}:  # none, or a property, as in a lazy proxy
        return None
    held = descriptor.__get__(value)
    return held if type(held) is dict else None


def _slots_of(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an object whose class has slots, such as a dataclass."""
    slots = [name for name, slot in vars(type(value)).items() if type(slot) is MemberDescriptorType]
    held = ((name, _slot(value, name)) for name in slots)
    return [(name, item) for name, item in held if item is not None]


def _slot(value: Any, name: str) -> Any:
    try:
        return vars(type(value))[name].__get__(value)
    except AttributeError:  # not assigned yet
        return None


def _best_name(names: list[str], frame: FrameType) -> str:
    """Return the name that the current line itself uses, else one that shows where the value is stored."""
    line = source_line(frame.f_code.co_filename, frame.f_lineno)
    names_on_line = set(re.findall(r"\w+", line))
    mentioned = [name for name in names if set(re.findall(r"[A-Za-z_]\w*", name)) <= names_on_line]
    return (mentioned or [name for name in names if "." in name or "[" in name] or names)[0]


def _variables(frame: FrameType) -> Iterator[_Named]:
    """Yield names and values of a frame: variables, attributes of `self`, items of containers, one level deep."""
    variables = [*locals_of(frame).items(), *list(frame.f_globals.items())]
    program_variables = [(name, value) for name, value in variables if _is_program_name(name)]
    yield from program_variables
    for name, value in program_variables:
        if name == "self" or hasattr(type(value), "named_parameters"):
            yield from ((f"{name}.{key}", item) for key, item in list((attributes_of(value) or {}).items()))
            yield from _parameters(name, value)
        else:
            yield from ((f"{name}{part}", item) for part, item in _items(value))


def _items(value: Any) -> Iterator[_Named]:
    """Yield the items of a container, each with its selector: "[0]", "['image']", ".image" for a named tuple.

    Keys of other types are left out: formatting a tensor, the key of an optimizer's state, would read it.
    """
    fields = getattr(type(value), "_fields", None)
    if issubclass(type(value), tuple) and type(fields) is tuple:  # `isinstance` may run code of the program
        yield from ((f".{field}", item) for field, item in zip(fields, tuple.__iter__(value), strict=False))
    elif (base := next((kind for kind in (list, tuple) if issubclass(type(value), kind)), None)) is not None:
        yield from ((f"[{index}]", item) for index, item in enumerate(islice(base.__iter__(value), _MAX_ITEMS)))
    elif issubclass(type(value), dict):
        items = list(dict.items(value))[:_MAX_ITEMS]
        yield from ((f"[{key!r}]", item) for key, item in items if type(key) in {int, str})


def _is_program_name(name: str) -> bool:
    """Return whether the program chose a name; excludes "__file__", pytest's "@py_assert1" and ".0" of generators."""
    return name.isidentifier() and not name.startswith("__")


def _parameters(name: str, value: Any) -> Iterator[_Named]:
    if hasattr(type(value), "named_parameters"):
        for key, parameter in value.named_parameters():
            yield f"{name}.{key}", parameter
            yield f"{name}.{key}.grad", getattr(parameter, "grad", None)
