"""Streams that a function or a constructor is given, judging by annotations and uses."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from syncheck.lint.nodes import Method, methods_of, names, own_attribute, parameters, text, walk
from syncheck.lint.parameters import Function
from syncheck.lint.prefilter import STREAM_BLOCK, words_in
from syncheck.source.expressions import last_name

_ORDERING = frozenset({"wait_stream", "wait_event", "record_event", "record_stream"})
"""Methods that order streams. Code that calls one handles several streams."""


class GivenStream(NamedTuple):
    """A stream that a function is given.

    Attributes:
        argument: the parameter.
        name: how the code names the stream: the parameter, or the attribute in which a constructor keeps it.
    """

    argument: ast.arg
    name: str


def streams_given(function: Function, owner: ast.ClassDef | None = None) -> Iterator[GivenStream]:
    """Yield the parameters that are streams other than the current one.

    Only code that enters a stream and orders streams shows that. If the function is a constructor, the other methods of
    its class may do so.

    Args:
        function: the function.
        owner: its class, if it is a constructor.
    """
    user = owner or function
    words = words_in(user)
    if STREAM_BLOCK not in words or words.isdisjoint(_ORDERING):
        return
    entered = {text(call.args[0]) for call in _stream_blocks(user)}
    if not entered:
        return
    for argument in parameters(function):
        name = _name(function, argument.arg)
        if _is_stream(argument.annotation) or (argument.annotation is None and name in entered):
            yield GivenStream(argument, name)


def may_be_given_streams(function: Method | None, owner: ast.ClassDef | None) -> bool:
    """Return whether a function, or the constructor of a class, has such a parameter."""
    begin = methods_of(owner).get("__init__") if owner is not None else None
    given = (*(streams_given(function) if function else ()), *(streams_given(begin, owner) if begin else ()))
    return bool(given)


def _stream_blocks(user: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that enter a stream: `torch.cuda.stream(side)`."""
    for node in walk(user):
        for item in node.items if isinstance(node, ast.With) else ():
            call = item.context_expr
            if isinstance(call, ast.Call) and last_name(call.func) == "stream" and len(call.args) == 1:
                yield call


def _name(function: Function, parameter: str) -> str:
    """Return the attribute that a function assigns a parameter to, as it is written, or else the parameter."""
    assigned = (node for node in walk(function) if isinstance(node, ast.Assign) and parameter in names(node.value))
    kept = (text(target) for node in assigned for target in node.targets if own_attribute(target))
    return next(kept, parameter)


def _is_stream(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Constant(value=str(quoted)):
            return quoted.removesuffix(" | None").rpartition(".")[2].rstrip("]") == "Stream"
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inner):
            return _is_stream(inner)
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _is_stream(left)
        case ast.Name(id="Stream") | ast.Attribute(attr="Stream"):
            return True
        case _:
            return False
