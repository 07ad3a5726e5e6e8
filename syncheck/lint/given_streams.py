"""Streams that a function or a constructor is given, judging by annotations and uses."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from syncheck.lint.nodes import (
    Method,
    entered_stream,
    methods_of,
    names,
    once,
    own_attribute,
    parameters,
    text,
    walk,
    without_none,
)
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
    entered = _entered_by(owner or function)
    for argument in parameters(function) if entered else ():
        name = _name(function, argument.arg)
        is_stream = last_name(without_none(argument.annotation)) == "Stream"
        if is_stream or (argument.annotation is None and name in entered):
            yield GivenStream(argument, name)


def may_be_given_streams(function: Method | None, owner: ast.ClassDef | None) -> bool:
    """Return whether a function, or the constructor of a class, has such a parameter."""
    begin = methods_of(owner).get("__init__") if owner is not None else None
    given = (*(streams_given(function) if function else ()), *(streams_given(begin, owner) if begin else ()))
    return bool(given)


@once
def _entered_by(user: ast.AST) -> frozenset[str]:
    """Return the streams that code enters, as they are written; none if it does not order streams."""
    words = words_in(user)
    is_ordering = not words.isdisjoint(_ORDERING) or words >= {"record", "wait"}
    if STREAM_BLOCK not in words or not is_ordering:
        return frozenset()
    items = (item for node in walk(user) if isinstance(node, ast.With) for item in node.items)
    entered = (entered_stream(item.context_expr) for item in items)
    return frozenset(text(stream) for stream in entered if stream is not None)


def _name(function: Function, parameter: str) -> str:
    """Return the attribute that a function assigns a parameter to, as it is written, or else the parameter."""
    return next((attribute for attribute, value in _attributes(function) if parameter in names(value)), parameter)


@once
def _attributes(function: ast.AST) -> list[tuple[str, ast.expr]]:
    """Return the attributes of `self` that a function assigns, as they are written, each with its value."""
    assigned = [node for node in walk(function) if isinstance(node, ast.Assign)]
    return [(text(target), node.value) for node in assigned for target in node.targets if own_attribute(target)]
