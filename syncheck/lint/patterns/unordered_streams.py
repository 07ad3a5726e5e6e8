"""Streams that a function or a class creates, and that no code in the file makes wait for another stream."""

import ast
from collections.abc import Iterator, Sequence, Set

from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.kept_streams import makes_stream, streams_kept_by
from syncheck.lint.nodes import Method, children, classes_in, entered_streams, is_quoted, nodes_in, text, walk
from syncheck.source.expressions import STREAM_CONTEXTS, last_name

_ORDERED = frozenset({"wait_stream", "wait_event"})
_HARMLESS = frozenset({"wait_stream", "record", "record_stream"})
"""Methods to which a stream can be given that does not wait there."""


FLAW = "stream `{stream}` never waits for the stream that computes `{name}`"
HELP = "add `{stream}.wait_stream(torch.cuda.current_stream())` before line {line}"


def unordered_streams(tree: ast.Module, source: str) -> Iterator[tuple[Method, list[ast.AST], str]]:
    """Yield each function of a file, its nodes, and each of its streams that never waits, as it is written.

    Args:
        tree: the file.
        source: its text.
    """
    kept = unordered_attributes(tree, source)
    for function, nodes in functions_with_nodes(tree):
        for stream in (*unordered_locals(nodes), *streams_of_object(function, kept, tree)):
            yield function, nodes, stream


def unordered_locals(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the variables to which a function assigns one new stream each that it neither orders nor gives away."""
    made = [node for node in nodes if isinstance(node, ast.Assign) and makes_stream(node.value)]
    if not made:
        return
    parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    used = [node for node in nodes if isinstance(node, ast.Name)]
    for stream in dict.fromkeys(text(target) for node in made for target in node.targets):
        uses = [node for node in used if node.id == stream]
        n_bound = sum(isinstance(node.ctx, ast.Store) for node in uses)
        loads = [node for node in uses if isinstance(node.ctx, ast.Load)]
        if n_bound == 1 and all(_is_harmless(node, parents) for node in loads):
            yield stream


def unordered_attributes(tree: ast.Module, source: str) -> set[str]:
    """Return the attributes to which a class assigns new streams that the file neither orders nor gives away.

    Args:
        tree: the file.
        source: its text, in which an attribute may be named as a string.
    """
    kept = {name for kind in classes_in(tree) for name in streams_kept_by(kind)}
    if not kept:
        return kept
    nodes = nodes_in(tree)
    parents = {child: node for node in nodes for child in children(node)}
    uses = (node for node in nodes if isinstance(node, ast.Attribute) and node.attr in kept)
    loads = (node for node in uses if isinstance(node.ctx, ast.Load))
    ordered = {node.attr for node in loads if not (_is_called(node, parents) or _is_harmless(node, parents))}
    return {name for name in kept - ordered if not is_quoted(name, source)}


def _is_called(use: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether an attribute is a function, such as `torch.cuda.stream`."""
    parent = parents.get(use)
    return isinstance(parent, ast.Call) and parent.func is use


def streams_of_object(function: Method, kept: Set[str], tree: ast.Module) -> Iterator[str]:
    """Yield those of the streams of an object that neither a decorator nor a caller in the file makes current."""
    if all(text(decorator).startswith("torch.") for decorator in function.decorator_list):
        for stream in (f"self.{name}" for name in kept):
            inside = (node for block in blocks_of(stream, nodes_in(tree)) for node in walk(block))
            if not any(isinstance(node, ast.Call) and last_name(node.func) == function.name for node in inside):
                yield stream


def blocks_of(stream: str, nodes: Sequence[ast.AST]) -> list[ast.With]:
    """Return the blocks that make a stream current, or one of a list; `stream`: as written, without an index."""
    blocks = [node for node in nodes if isinstance(node, ast.With)]
    return [block for block in blocks if stream in map(text, map(_without_index, entered_streams(block)))]


def _without_index(stream: ast.expr) -> ast.expr:
    return stream.value if isinstance(stream, ast.Subscript) else stream


def _is_harmless(use: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a use of a stream, or of a list, leaves it unordered after the current stream.

    Another stream may wait for it, or record it, or the host may. A use outside of the function's own code, such as in
    a nested function, may order it.
    """
    match parents.get(use):
        case ast.Attribute(attr=name):
            return name not in _ORDERED
        case ast.Call(func=called):
            return last_name(called) in STREAM_CONTEXTS | (_HARMLESS if isinstance(called, ast.Attribute) else {"len"})
        case ast.Subscript(value=value) as item if value is use:
            return _is_harmless(item, parents)
        case ast.For(iter=values, target=ast.Name(id=name), body=body) if values is use:
            inside = (node for step in body for node in walk(step))
            return all(_is_harmless(node, parents) for node in inside if isinstance(node, ast.Name) and node.id == name)
        case ast.Compare() | ast.If() | ast.IfExp():
            return True
        case _:
            return False
