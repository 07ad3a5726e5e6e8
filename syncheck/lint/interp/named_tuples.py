"""Classes that derive from `typing.NamedTuple`: their instances have named fields, and are sequences of them."""

import ast

from syncheck.lint.interp.values import UNKNOWN, Class, Instance, Sequence, Symbol, Value


def is_tuple(kind: Class) -> bool:
    """Return whether a class is a named tuple."""
    return any(isinstance(base, Symbol) and base.path.endswith(".NamedTuple") for base in kind.bases)


def items_of_tuple(value: Value) -> Value:
    """Return the fields of a named tuple as a sequence; any other value unchanged."""
    if not isinstance(value, Instance) or not is_tuple(value.kind):
        return value
    fields = [item.target for item in value.kind.node.body if isinstance(item, ast.AnnAssign)]
    names = [field.id for field in fields if isinstance(field, ast.Name)]
    return Sequence([value.attributes.get(name, UNKNOWN) for name in names])
