"""Tensors on unknown devices that a stream block of the same function computes with, so that they are on a GPU."""

import ast
import re
from collections.abc import Iterator

from syncheck.lint.interp.exchanged import VIEWS
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.interp.host_copies import host_copy_source
from syncheck.lint.interp.unknown import is_network
from syncheck.lint.nodes import Method, bound_names, functions_in, is_on_stream, once, own_attribute, text, viewed, walk

_OPERATORS = re.compile(r"^(?:torch|F|torch\.nn\.functional)\.(?!as_|from_|is_|load|save|tensor$)[a-z_]\w*$")
_COLLECTIVES = re.compile(r"^(?:dist|torch\.distributed)\.\w+$")
_COMPUTING = frozenset(
    "index_select add add_ mul mul_ div div_ sub sub_ matmul exp sum mean norm clone record_stream zero_".split()
)
"""Methods of a tensor that run on its device, or that only tensors on a GPU need."""
_MOVING = frozenset({"to", "cuda", "pin_memory", "cpu", "numpy", "item", "tolist", "is_cuda", "device"})
"""Members whose use shows that the device of a tensor is not fixed."""


@once
def block_inputs(tree: ast.Module) -> dict[ast.AST, str]:
    """Return call of an operator outside stream blocks -> the variable through which a later block uses its result."""
    return {value: name for value, name in moved_inputs(tree).items() if _is_operator(value)}


@once
def moved_inputs(tree: ast.Module) -> dict[ast.AST, str]:
    """Return expression outside stream blocks -> the variable, also of an object, with which a block computes."""
    return dict(pair for function in functions_in(tree) for pair in _inputs_of(function))


def _inputs_of(function: Method) -> Iterator[tuple[ast.AST, str]]:
    nodes = list(own_nodes(function))
    blocks = [node for node in nodes if isinstance(node, ast.With) and is_on_stream(node)]
    if not blocks:
        return
    hosts = {
        name for node in nodes if isinstance(node, ast.Assign) and _is_pinned(node.value) for name in bound_names(node)
    }
    used = {name for block in blocks for node in block_nodes(block) for name in _used_on_gpu(node, hosts)}
    inside = {node for block in blocks for node in walk(block)}
    moved = {node: name for node in nodes if (name := _moved(node))}
    for node in nodes:
        if not isinstance(node, ast.Assign) or node in inside:
            continue
        if made := {text(target) for target in node.targets} & used:
            own = set(walk(node.value))
            elsewhere = {name for part, name in moved.items() if part not in own}
            yield from ((node.value, name) for name in sorted(made - elsewhere))


def _used_on_gpu(node: ast.AST, hosts: set[str]) -> Iterator[str]:
    """Yield the variables that a node in a stream block uses on a GPU; `hosts`: the variables in pinned memory."""
    copied = host_copy_source(node, hosts)
    operands: list[ast.expr] = [copied] if copied is not None else []
    match node:
        case ast.Call(func=func, args=args) if _is_operator(node) or _COLLECTIVES.match(text(func)) or is_network(node):
            operands += args
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _COMPUTING:
            operands.append(owner)
        case ast.BinOp(left=left, right=right):
            operands += [left, right]
        case _:
            pass
    sources = (viewed(operand, VIEWS) for operand in operands)
    yield from (text(source) for source in sources if _is_variable(source))


def _is_variable(node: ast.expr) -> bool:
    """Return whether an expression is a variable or an attribute of the object."""
    return isinstance(node, ast.Name) or bool(own_attribute(node))


def _is_operator(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _OPERATORS.match(text(node.func)) is not None


def _is_pinned(node: ast.AST) -> bool:
    """Return whether an expression creates a tensor in pinned memory."""
    match node:
        case ast.Call(func=ast.Attribute(attr="pin_memory")):
            return True
        case ast.Call(keywords=keywords):
            return any(keyword.arg == "pin_memory" and not _is_off(keyword.value) for keyword in keywords)
        case _:
            return False


def _is_off(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _moved(node: ast.AST) -> str:
    """Return the variable whose device may change, or is asked for, at a node; "" if there is none."""
    match node:
        case ast.Attribute(value=owner, attr=member) if member in _MOVING and _is_variable(owner):
            return text(owner)
        case _:
            return ""
