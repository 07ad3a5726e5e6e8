"""Pinned slots that the host writes right before it waits for the last copy from them (SYN302)."""

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import blocks_in, changed_in_place, is_non_blocking, nodes_in, text
from syncheck.lint.patterns.context import Context
from syncheck.rules import host_write_in_flight
from syncheck.source.expressions import last_name

_HELP = "move `{wait}` in line {late} before line {line}"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "pin_memory" in source and "non_blocking" in source and ".synchronize()" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the writes of slots whose event, at the same index, the next statement waits for."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        indices = _indices(nodes)
        sent = {_owner(node) for node in nodes if isinstance(node, ast.Call) and is_non_blocking(node)}
        for steps in blocks_in(function, nodes):
            for write, after in pairwise(steps):
                slot, event = _written(write), _awaited(after)
                if not slot or not event or slot not in sent or write.lineno in lines:
                    continue
                if not _may_be_pinned(slot, nodes, context.tree):
                    continue
                index = _index(slot, indices)
                if index and index == _index(event, indices):
                    facts = {"tensor": f"`{slot}`", "stream": "the stream of its last copy", "verb": "reading"}
                    advice = _HELP.format(wait=f"{event}.synchronize()", late=after.lineno, line=write.lineno)
                    yield context.sites.warning(host_write_in_flight.RULE, write, function.name, advice, **facts)


def _may_be_pinned(slot: str, nodes: Sequence[ast.AST], tree: ast.Module) -> bool:
    """Return whether a slot may be in pinned memory: unless the file makes its container without that."""
    container = last_name(_container_of(slot, nodes))
    made = [node for node in nodes_in(tree) if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]
    values = [
        node.value
        for node in made
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if container and last_name(target) == container
    ]
    known = [value for value in values if isinstance(value, ast.ListComp | ast.List)]
    return not known or any(value is not None and "pin" in text(value) for value in values)


def _container_of(slot: str, nodes: Sequence[ast.AST]) -> ast.expr | None:
    """Return the container of the item that a variable is bound to, `self.slots` after `slot = self.slots[k]`."""
    return next((item.value for target, item in _bound_items(nodes) if text(target) == slot), None)


def _indices(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Return the index of the item that each variable is bound to, as written: `slot, event = slots[k], sent[k]`."""
    return {target.id: text(item.slice) for target, item in _bound_items(nodes) if isinstance(target, ast.Name)}


def _bound_items(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, ast.Subscript]]:
    """Yield each target that is assigned an item of a container, with the item."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=many)], value=ast.Tuple(elts=values)) if len(many) == len(values):
                pairs = list(zip(many, values, strict=True))
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case _:
                continue
        yield from ((target, value) for target, value in pairs if isinstance(value, ast.Subscript))


def _index(expression: str, indices: dict[str, str]) -> str:
    """Return the index of the item that a variable or an item is; "" if unknown."""
    if expression in indices:
        return indices[expression]
    return expression.rpartition("[")[2].removesuffix("]") if expression.endswith("]") else ""


def _owner(node: ast.AST) -> str:
    """Return the memory that a call copies from: `x` of `x.to(device)` and of `y.copy_(x)`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="copy_"), args=[source, *_]):
            return text(source)
        case ast.Call(func=ast.Attribute(value=source)):
            return text(source)
        case _:
            return ""


def _written(step: ast.stmt) -> str:
    """Return the memory that the host writes in a statement; "" if none."""
    match step:
        case ast.Expr(value=ast.Call() as call) if not is_non_blocking(call):
            changed = changed_in_place(call)
            return "" if changed is None else text(changed)
        case ast.Assign(targets=[ast.Subscript(value=target)]):
            return text(target)
        case _:
            return ""


def _awaited(step: ast.stmt) -> str:
    """Return the event that the host waits for in a statement, perhaps if there is one; "" if none."""
    match step:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=event, attr="synchronize"), args=[])):
            return text(event)
        case ast.If(body=[inner], orelse=[]):
            return _awaited(inner)
        case _:
            return ""
