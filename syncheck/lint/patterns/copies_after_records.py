"""Tensors that a function computes from one that it has recorded on a stream, and returns unrecorded (SYN201).

`t.record_stream(consumer)` protects the memory of `t`. `t.float()` after it has memory of its own, from the stream on
which the function runs, and the consumer uses that.
"""

import ast
from collections.abc import Iterator, Sequence, Set

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import bound_names, is_on_stream, names, parameters, text
from syncheck.lint.patterns.context import Context
from syncheck.rules import missing_record_stream
from syncheck.semantics.python_api import CASTS

_DEVICES = ("device", "cuda", "cpu")
_HELP = "move `{record}.record_stream({stream})` after this line, or record the new tensor, too"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".record_stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the tensors, as warnings: a cast returns the tensor itself if it has the type already."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        if any(isinstance(node, ast.With) and is_on_stream(node) for node in nodes):
            continue  # it may compute on the consumer's stream
        given = {parameter.arg for parameter in parameters(function)}
        for stream, tensor, line in _recorded(nodes, given):
            for made in _computed_after(nodes, tensor, line):
                if made.lineno not in lines:
                    facts = {"tensor": f"`{text(made)}`", "user": f"`{stream}`", "verb": "using"}
                    advice = _HELP.format(record=tensor, stream=stream)
                    yield context.sites.warning(missing_record_stream.RULE, made, function.name, advice, **facts)


def _recorded(nodes: Sequence[ast.AST], given: Set[str]) -> Iterator[tuple[str, str, int]]:
    """Yield the variables that a function records on a stream that it gets, as (stream, variable, line).

    A loop over a list records its items: `for t in tensors: t.record_stream(s)`, then `a, b = tensors`.
    """
    loops = [node for node in nodes if isinstance(node, ast.For) and isinstance(node.iter, ast.Name)]
    listed = {text(loop.target): (text(loop.iter), loop.end_lineno or loop.lineno) for loop in loops}
    unpacked = [step for node in nodes if isinstance(node, ast.Assign) for step in _unpacked(node)]
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="record_stream"), args=[ast.Name(id=stream)]
            ) if stream in given:
                items, end = listed.get(name, ("", node.lineno))
                yield stream, name, end
                parts = (step for step in unpacked if items == step[0] and step[2] > end)
                yield from ((stream, part, bound) for _, part, bound in parts)
            case _:
                pass


def _unpacked(node: ast.Assign) -> list[tuple[str, str, int]]:
    """Return the variables to which a statement unpacks a list, as (list, variable, line)."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Name(id=items)):
            return [(items, text(part), node.lineno) for part in parts]
        case _:
            return []


def _computed_after(nodes: Sequence[ast.AST], tensor: str, line: int) -> Iterator[ast.expr]:
    """Yield the new tensors that a function computes from a variable after a line, and returns unrecorded."""
    later = [node for node in nodes if isinstance(node, ast.Assign | ast.Return) and node.lineno > line]
    returned = {name for node in later if isinstance(node, ast.Return) for name in names(node)}
    for node in later:
        if node.value is None or not _is_computed(node.value, tensor):
            continue
        bound = bound_names(node) if isinstance(node, ast.Assign) else set()
        if isinstance(node, ast.Return) or (bound & returned and not _is_recorded(nodes, bound, node.lineno)):
            yield node.value


def _is_recorded(nodes: Sequence[ast.AST], variables: Set[str], line: int) -> bool:
    """Return whether one of some variables is recorded on a stream after a line."""
    calls = (node for node in nodes if isinstance(node, ast.Call) and node.lineno > line)
    recording = (call.func for call in calls if isinstance(call.func, ast.Attribute))
    return any(called.attr == "record_stream" and text(called.value) in variables for called in recording)


def _is_computed(value: ast.expr, tensor: str) -> bool:
    """Return whether an expression makes a new tensor from another: `t.float()`, `t.to(dtype)`, `t / 255`."""
    match value:
        case ast.BinOp(left=ast.Name(id=name)):
            return name == tensor
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=args):
            is_moved = any(word in text(value) for word in _DEVICES)
            return name == tensor and (method in CASTS or (method == "to" and bool(args) and not is_moved))
        case _:
            return False
