"""Copies to the host, on a stream that did not wait, of what a function has just computed on another stream.

The host may wait for such a copy: it waits for the copy's own stream, on which the copy comes too early.
"""

import ast
from collections.abc import Sequence

from syncheck.lint.interp.host_copies import host_copy_source
from syncheck.lint.nodes import HOST_READS, bound_names, children, own_attribute, text, viewed, walk
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_FETCHES = frozenset("to cuda pin_memory next get get_nowait recv pop popleft load empty Event Stream".split())
"""Calls whose results were not computed on the current stream."""
_READING = frozenset("read load open collate".split())
"""Words in the names of functions that read data on the host."""
_OF_THE_HOST = frozenset("from_numpy as_tensor tensor frombuffer".split())
"""Functions that make tensors from data of the host."""
_CASTS = frozenset({"float", "int", "bool"})
"""Functions that read a tensor on the host, which then waits."""


def fetches_computed(
    nodes: Sequence[ast.AST], block: ast.With, blocks: Sequence[ast.With], hosts: Sequence[int]
) -> bool:
    """Return whether a block copies to the host, without waiting, what its function has computed before it.

    The copy may also be of what the block computes from that. The outputs of graphs are attributes of `self`.

    Args:
        nodes: the nodes of the function.
        block: a block on a stream that waits for no other one.
        blocks: all blocks on that stream.
        hosts: the lines on which the host waits.
    """
    within = [node for statement in block.body for node in walk(statement)]
    sources = (host_copy_source(node) or _read_by_host(node) for node in within)
    fetched = {part for source in sources if source is not None for part in _parts(source)}
    if not fetched:
        return False
    for node in sorted(_assignments(within), key=lambda node: node.lineno, reverse=True):
        fetched |= _parts(node.value) if bound_names(node) & fetched else set()
    inside = {node for other in blocks for node in walk(other)}
    before = [node for node in nodes if node not in inside and getattr(node, "lineno", block.lineno) < block.lineno]
    made = [node.lineno for node in _assignments(before) if made_by(node) & fetched and not _is_fetched(node.value)]
    if any(part.startswith("self.") for part in fetched):
        made += [node.lineno for node in before if isinstance(node, ast.Call) and last_name(node.func) == "replay"]
    end = block.end_lineno or block.lineno
    hosts = [*hosts, *(node.lineno for node in before if isinstance(node, ast.Call) and last_name(node.func) in _CASTS)]
    return bool(made) and not any(max(made) <= line < end for line in hosts)


def made_by(node: ast.AST) -> set[str]:
    """Return the variables that a statement binds to a computed value."""
    if not isinstance(node, ast.Assign) or not isinstance(viewed(node.value, ()), ast.Call | ast.BinOp):
        return set()
    stored = (inner for target in node.targets for inner in walk(target))
    return {inner.id for inner in stored if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load)}


def _assignments(nodes: Sequence[ast.AST]) -> list[ast.Assign]:
    return [node for node in nodes if isinstance(node, ast.Assign)]


def _parts(value: ast.expr) -> set[str]:
    """Return the variables in a value, and the attributes of `self` as they are written."""
    found: set[str] = set()
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) or own_attribute(node):
            found.add(text(node))
        elif isinstance(node, ast.Subscript):
            waiting.append(node.value)  # an index is no data
        elif not (isinstance(node, ast.Call) and last_name(node.func) in _OF_THE_HOST):
            waiting += children(node)
    return found


def _read_by_host(node: ast.AST) -> ast.expr | None:
    """Return the tensor whose values a call copies to the host, which waits for this stream only; None for others."""
    match node:
        case ast.Call(func=ast.Attribute(value=source, attr=name), args=[]) if name in HOST_READS:
            return source
        case ast.Call(func=ast.Attribute(value=source, attr="to"), args=[ast.Constant(value="cpu")]):
            return source
        case _:
            return None


def _is_fetched(value: ast.expr) -> bool:
    made = viewed(value, ())
    return isinstance(made, ast.Call) and (
        last_name(made.func) in _FETCHES or bool(words_of(last_name(made.func)) & _READING)
    )
