"""Arguments of calls that may be devices or types: `x.to(device)`, `x.to(torch.half)`, `x.type(torch.FloatTensor)`."""

import ast
import re

from syncheck.lint.interp.operators import device_of
from syncheck.lint.interp.values import Constant, Symbol, Value
from syncheck.lint.nodes import text
from syncheck.source.expressions import last_name


def first_argument(node: ast.AST) -> ast.expr | None:
    """Return the device argument of a call, or else its first argument."""
    if not isinstance(node, ast.Call):
        return None
    named = device_of(node)
    return node.args[0] if node.args and named is None else named


def names_type(node: ast.AST) -> bool:
    """Return whether the first argument of a call is a data type, judging by its words: `x.to(DTYPES[name])`."""
    first = first_argument(node)
    words = "" if first is None else text(first).lower()
    return "dtype" in words and "device" not in words


def is_type(value: Value) -> bool:
    """Return whether a value may be a data type, rather than a device."""
    return (isinstance(value, Symbol) and value.path.startswith("torch.")) or isinstance(value, Constant)


def is_host_type(value: Value | None) -> bool:
    """Return whether a value is a type of host tensors, as in `x.type(torch.FloatTensor)`."""
    name = value.path if isinstance(value, Symbol) else value.value if isinstance(value, Constant) else ""
    return isinstance(name, str) and re.fullmatch(r"torch\.\w*Tensor", name) is not None


def is_type_of_tensor(node: ast.expr | None) -> bool:
    """Return whether an expression is the type of a tensor, which includes its device: `y.type()`."""
    return isinstance(node, ast.Call) and last_name(node.func) == "type" and not node.args
