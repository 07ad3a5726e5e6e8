"""Results that a function drops while a stream, which nothing waits for before the end, may still read them (SYN201).

The memory belongs to the current stream, which may reuse it at once.
"""

import ast
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.dropped_arguments import dropped_arguments, packed_argument
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.nodes import HOST_READS, NO_VALUES, bound_names, children, text
from syncheck.lint.temporaries import is_new, kept
from syncheck.rules import missing_record_stream
from syncheck.source.expressions import last_name

_FORKS = frozenset({"wait_stream", "wait_event"})
_HOST_WAITS = HOST_READS | {"record_stream"}
"""Calls after which the host has waited, or the memory is protected."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
_HELP = "add `{tensor}.record_stream({stream})` after line {line}, outside of the block"


def findings(
    function: Function, block: ast.With, stream: str, sites: SourceSites, *, is_recorded: bool = False
) -> Iterator[Finding]:
    """Yield the results that a function drops too early, where a block on another stream reads them.

    Args:
        function: the function.
        block: a block in it; nothing in the function waits for its stream.
        stream: the source of that stream.
        sites: the call sites of the file.
        is_recorded: whether an event records the work. A caller may wait for it at once, but autograd does not.
    """
    nodes = list(own_nodes(function))
    bindings = sorted((node for node in nodes if isinstance(node, ast.Assign)), key=lambda node: node.lineno)
    if not _waits_for_current(block, nodes, stream, bindings) or _is_joined(block, nodes, stream):
        return
    given = packed_argument(function, sites.tree)
    if not given and (is_recorded or _has_results(block)):
        return  # whoever gets them may wait at once
    given |= dropped_arguments(function, sites.tree)
    before = [] if is_recorded else [each for each in bindings if each.lineno < block.lineno]
    others = other_branches(nodes, block)
    passed = kept(node for node in nodes if getattr(node, "lineno", 0) not in others)
    for node in sorted(_read_in(block), key=lambda name: (name.lineno, name.col_offset)):
        if node.id not in passed and is_new(node, before, given):
            passed.add(node.id)  # once
            facts = {"tensor": f"`{node.id}`", "user": f"stream `{stream}`", "verb": "reading"}
            advice = _HELP.format(tensor=node.id, stream=stream, line=block.end_lineno)
            yield sites.warning(missing_record_stream.RULE, node, function.name, advice, **facts)


def other_branches(nodes: list[ast.AST], block: ast.With) -> set[int]:
    """Return the lines of a function that do not run if a block runs, as they are in the other branch of a test."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.If):
            for here, other in ((node.body, node.orelse), (node.orelse, node.body)):
                if here and other and here[0].lineno <= block.lineno <= (here[-1].end_lineno or 0):
                    found |= set(range(other[0].lineno, (other[-1].end_lineno or 0) + 1))
    return found


def _has_results(block: ast.With) -> bool:
    """Return whether a block binds variables, or leaves the function, so that it does not only write memory."""
    nodes = block_nodes(block)
    bound = any(isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) for node in nodes)
    return bound or any(isinstance(node, ast.Return | ast.Yield) for node in nodes)


def _waits_for_current(block: ast.With, nodes: list[ast.AST], stream: str, bindings: list[ast.Assign]) -> bool:
    """Return whether the stream of a block waits for the stream that is current before it, or for an event there."""
    inside = set(block_nodes(block))
    methods = [
        (node, node.func.value, node.func.attr)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.lineno <= block.lineno or node in inside
    ]
    current = {name for node in bindings if _is_current(node.value) for name in bound_names(node)}
    current |= {
        text(event)
        for call, event, name in methods
        if name == "record" and call not in inside and stream not in map(text, call.args)
    }
    return any(
        name in _FORKS
        and any(_is_current(part) or text(part) in current for part in call.args)
        and _is_stream(owner, stream, is_inside=call in inside)
        for call, owner, name in methods
    )


def _is_stream(node: ast.expr, stream: str, *, is_inside: bool) -> bool:
    """Return whether an expression is a stream, which is the current one inside its blocks."""
    return text(node) == stream or (is_inside and _is_current(node))


def _is_current(node: ast.expr) -> bool:
    """Return whether a call returns the current or the default stream, or an event that it records."""
    return isinstance(node, ast.Call) and last_name(node.func) in {"current_stream", "default_stream", "record_event"}


def _is_joined(block: ast.With, nodes: list[ast.AST], stream: str) -> bool:
    """Return whether something may wait for the stream of a block after it begins, or protects memory anywhere."""
    others, inside = other_branches(nodes, block), set(block_nodes(block))
    for node in nodes:
        if not isinstance(node, ast.Call) or node.lineno in others:
            continue
        name, owner = last_name(node.func), node.func.value if isinstance(node.func, ast.Attribute) else None
        is_own = owner is not None and name in _FORKS and _is_stream(owner, stream, is_inside=node in inside)
        if name == "record_stream" or (
            node.lineno >= block.lineno and not is_own and (name in _HOST_WAITS or may_wait(name))
        ):
            return True
    return False


def _read_in(block: ast.With) -> list[ast.Name]:
    """Return the variables whose values a block reads, and not only their shapes."""
    nodes = block_nodes(block)
    parents = {child: node for node in nodes for child in children(node)}
    read = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return [node for node in read if getattr(parents.get(node), "attr", "") not in NO_VALUES]
