"""Instances of dataclasses and named tuples, and the fields that their classes declare."""

import ast
from collections.abc import Iterator

from syncheck.lint import nodes
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.named_tuples import is_tuple
from syncheck.lint.interp.unknown import called_name
from syncheck.lint.interp.values import UNKNOWN, Call, Class, Function, Instance, Value


def is_dataclass(kind: Class) -> bool:
    """Return whether a class is a dataclass or a named tuple."""
    return is_tuple(kind) or any("dataclass" in nodes.text(decorator) for decorator in kind.node.decorator_list)


def set_fields(evaluator: Evaluator, instance: Instance, call: Call) -> None:
    """Set the fields of a new instance as the generated `__init__` does, and call `__post_init__`."""
    kind = instance.kind
    declared = dict(_fields(kind))
    given = dict(zip(declared, call.args, strict=False)) | call.kwargs
    for name, default in declared.items():
        if name not in given and default is not None and call.is_complete:
            given[name] = _default(evaluator, default, kind, call)
    instance.attributes |= given
    after = kind.find("__post_init__")
    if isinstance(after, Function):
        evaluator.call_function(after, Call(call.node, [instance]))


def _fields(kind: Class) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the fields in the order of the parameters of `__init__`, with their defaults."""
    for base in reversed(kind.bases):
        if isinstance(base, Class) and is_dataclass(base):
            yield from _fields(base)
    for item in kind.node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and not _is_of_class(item):
            yield item.target.id, item.value


def _is_of_class(field: ast.AnnAssign) -> bool:
    """Return whether an annotation declares a class variable, or a field that `__init__` has no parameter for."""
    if "ClassVar" in ast.unparse(field.annotation):
        return True
    keywords = _keywords(field.value)
    init = keywords.get("init")
    return (
        isinstance(init, ast.Constant) and init.value is False and not keywords.keys() & {"default", "default_factory"}
    )


def _default(evaluator: Evaluator, node: ast.expr, kind: Class, call: Call) -> Value:
    """Return the default of a field: its value, or the result of its factory."""
    if called_name(node) != "field":
        return evaluator.evaluate(node, kind.scope)
    keywords = _keywords(node)
    if "default_factory" in keywords:
        return evaluator.call(evaluator.evaluate(keywords["default_factory"], kind.scope), Call(call.node, []))
    return evaluator.evaluate(keywords["default"], kind.scope) if "default" in keywords else UNKNOWN


def _keywords(node: ast.expr | None) -> dict[str, ast.expr]:
    """Return the keyword arguments of a call; an empty mapping for any other expression."""
    return (
        {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg} if isinstance(node, ast.Call) else {}
    )
