"""Replays after an input of the graph was bound to another tensor instead of being filled (SYN904).

The graph still reads the memory that it captured, which is freed with the last reference to it.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes, own_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import blocks_in, branches, nodes_in, stored_names, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.graph_runners import is_replay
from syncheck.rules import graph_uses_freed_memory

_REPLACED = "bound to another tensor here"
_HELP = "fill the captured tensor instead in line {line}: `{input}.copy_({value})`"

_Scope = tuple[str, ast.AST, Sequence[ast.AST]]
"""The name of a function, the function or the file, and its nodes."""


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".replay()" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the replays, as warnings, since something else may hold the old tensor."""
    lines = main_lines_of(context.known)
    captured = {text(node) for node in _captured(nodes_in(context.tree)) if isinstance(node, ast.Attribute)}
    kept_elsewhere = {alias for alias in _aliases(nodes_in(context.tree)) if "." in alias}
    own = [node for node in own_nodes(context.tree) if hasattr(node, "lineno")]
    scopes: list[_Scope] = [
        ("", context.tree, own),
        *((f.name, f, nodes) for f, nodes in functions_with_nodes(context.tree)),
    ]
    for function, scope, nodes in scopes:
        named = {node.id for node in _captured(nodes) if isinstance(node, ast.Name)} - _computed(nodes)
        aliases = _aliases(nodes) | kept_elsewhere
        for steps in (*([context.tree.body] if scope is context.tree else ()), *blocks_in(scope, nodes)):
            for assign, replay in _replaced(steps, captured, named):
                target = text(assign.targets[0])
                if replay.lineno not in lines and target not in aliases and _is_new(assign, target):
                    lines.add(replay.lineno)
                    advice = _HELP.format(line=assign.lineno, input=target, value=text(assign.value))
                    rule = graph_uses_freed_memory.RULE
                    found = context.sites.warning(rule, replay, function, advice, tensor=f"`{target}`")
                    where = context.sites.related(assign, function, _REPLACED)
                    yield replace(found, related=(where,))


def _captured(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """Yield what calls in captures get: variables and attributes. Their results are no inputs."""
    for block in nodes:
        if isinstance(block, ast.With) and _captures(block):
            for call in (node for step in block.body for node in walk(step) if isinstance(node, ast.Call)):
                yield from (value for value in call.args if not isinstance(value, ast.Starred))
                yield from (word.value for word in call.keywords if word.arg is not None)


def _computed(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the variables that captures bind: these are in the graph's own memory."""
    blocks = (node for node in nodes if isinstance(node, ast.With) and _captures(node))
    return stored_names(inner for block in blocks for step in block.body for inner in walk(step))


def _aliases(nodes: Sequence[ast.AST]) -> set[str]:
    """Return what assignments give another name or keep in a container."""
    return {alias for node in nodes if isinstance(node, ast.Assign) for alias in _aliased(node.value)}


def _aliased(value: ast.expr) -> Iterator[str]:
    """Yield the variables and attributes that a value stands for or contains: something else holds their tensors."""
    match value:
        case ast.Name() | ast.Attribute():
            yield text(value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            for part in parts:
                yield from _aliased(part)
        case _:
            pass


def _is_new(assign: ast.Assign, target: str) -> bool:
    """Return whether an assignment may bind other memory: its value does not come from what the target was."""
    return target not in {text(part) for part in walk(assign.value) if isinstance(part, ast.Name | ast.Attribute)}


def _captures(step: ast.AST) -> bool:
    """Return whether a statement is a block that captures a graph."""
    contexts = (item.context_expr for item in step.items) if isinstance(step, ast.With) else ()
    return any(
        isinstance(each, ast.Call) and text(each.func) in {"torch.cuda.graph", "cuda.graph"} for each in contexts
    )


def _replaced(steps: Sequence[ast.stmt], captured: set[str], named: set[str]) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """Yield the assignments of inputs in a list of statements, each with the next replay.

    An entry of a dictionary counts if the statements fill another entry of it.
    """
    for index, step in enumerate(steps):
        replay = _replay(step)
        if replay is None or not isinstance(replay.func, ast.Attribute):
            continue
        captures = [place for place, other in enumerate(steps[:index]) if any(map(_captures, walk(other)))]
        owner, before = text(replay.func.value), steps[max(captures, default=-1) + 1 : index]
        filled = {container for node in before for container in _filled(node)}
        for assign in before:
            match assign:
                case ast.Assign(targets=[ast.Subscript(value=container, slice=ast.Constant(value=str()))]):
                    is_input = text(container) in filled and _belongs(text(container), owner)
                case ast.Assign(targets=[ast.Attribute() as target]):
                    is_input = text(target) in captured and _belongs(text(target), owner)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    is_input = name in named and "." not in owner
                case _:
                    continue
            if is_input and not isinstance(assign.value, ast.Constant):
                yield assign, replay


def _replay(step: ast.stmt) -> ast.Call | None:
    """Return the replay in a statement without branches; None if there is none."""
    calls = (node for node in walk(step) if isinstance(node, ast.Call)) if not branches(step) else ()
    return next(filter(is_replay, calls), None)


def _belongs(container: str, owner: str) -> bool:
    """Return whether a container is of the object that replays, or of the one that has the graph."""
    return container.startswith((f"{owner}.", f"{owner.rpartition('.')[0] or owner}."))


def _filled(step: ast.stmt) -> Iterator[str]:
    """Yield the dictionaries of which a statement fills an entry."""
    match step:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Subscript(value=container), attr="copy_"))):
            yield text(container)
        case _:
            pass
