"""Values that become part of a text: the host reads the tensors among them."""

import ast

from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.operators import Operators
from syncheck.lint.interp.unknown import may_be_read
from syncheck.lint.interp.values import Constant, Sequence, Value


def read_formatted(machine: Machine, operators: Operators, value: Value, node: ast.AST) -> None:
    """Let the host read a value, or the items of a tuple, for a text. Python calls `__format__` or `__str__`."""
    for item in value.items if isinstance(value, Sequence) else [value]:
        for tensor in tensors_in(item):
            operators.read_by_host(tensor, node, "format")
        if may_be_read(item) or (is_unknown(item) and machine.recent.is_of_unknown):
            machine.read_unknown()


def is_template(kind: ast.operator, left: Value, node: ast.AST) -> bool:
    """Return whether an operation is `template % values`, judging by the source if the template is not known."""
    if not isinstance(kind, ast.Mod):
        return False
    is_text = isinstance(left, Constant) and isinstance(left.value, str)
    return is_text or (isinstance(node, ast.BinOp) and isinstance(node.left, ast.JoinedStr))
