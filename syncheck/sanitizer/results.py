"""What the calls of a line return, as far as its source tells."""

import ast

from syncheck.findings import Frame
from syncheck.sanitizer.monitor import SourceLine
from syncheck.semantics import python_api
from syncheck.source.expressions import calls_in, is_at

_CREATING = python_api.FACTORIES | python_api.LIKE | python_api.NEW | python_api.COMBINING
"""Functions and methods that return one new tensor."""


def is_new_tensor(line: SourceLine, call: Frame) -> bool:
    """Return whether a call on a line certainly returns one tensor, and its statement assigns it as it is."""
    start, end = (call.line, call.column), (call.end_line, call.end_column)
    if line.scopes is None or not line.scopes.is_whole_value(start, end):
        return False
    match getattr(line.statement, "value", None):
        case ast.BinOp() | ast.UnaryOp():
            return True
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _CREATING
        case _:
            return False


def may_return_none(line: SourceLine) -> bool:
    """Return whether the call on a line may return None instead of a handle: `dist.all_reduce(x, async_op=flag)`.

    Source: torch/distributed/distributed_c10d.py: synchronous calls return None.
    """
    calls = calls_in(line.statement)
    exact = [call for call in calls if is_at(call, line.number, line.column)]
    async_arguments = [
        keyword.value for call in exact or calls for keyword in call.keywords if keyword.arg == "async_op"
    ]
    return any(not isinstance(value, ast.Constant) for value in async_arguments)
