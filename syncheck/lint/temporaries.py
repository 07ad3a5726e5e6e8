"""Tensors that a function computes, and whether anything but its variables keeps them."""

import ast
import re
from collections.abc import Iterable, Set

from syncheck.lint.interp.unknown import makes_object
from syncheck.lint.nodes import bound_names, names, own_attribute, text, viewed, walk
from syncheck.source.expressions import arguments_of, last_name
from syncheck.source.words import words_of

_OPERATORS = re.compile(
    r"^(?:F|torch\.nn\.functional)\.\w+$|^torch\.(?:matmul|mm|bmm|einsum|softmax|relu|addmm|baddbmm|cat|stack|clone|gather"
    r"|index_select|where|add|sub|mul|div|exp|sigmoid|tanh)$"
)
_LAYERS = frozenset("proj norm linear conv fc mlp attn attention embedding embed layer gate head qkv".split())
"""Words in the names of layers, whose results are new memory."""
_VIEWS = frozenset("view reshape flatten detach squeeze unsqueeze transpose permute narrow contiguous".split())
KEEPING = frozenset("append appendleft put put_nowait add extend insert update save_for_backward".split())
"""Methods that keep their arguments."""
_STORING = frozenset("hold keep store stash register cache remember retain push".split())
"""Words in the names of functions that keep their arguments."""


def is_new(node: ast.expr, before: list[ast.Assign], given: Set[str] = frozenset()) -> bool:
    """Return whether a value is the result of an operator or a layer, or a view of one.

    Args:
        node: the value.
        before: the assignments of the function before it, in their order.
        given: the parameters of the function that are such results, too.
    """
    match node:
        case ast.Name(id=name):
            last = next((i for i in reversed(range(len(before))) if name in bound_names(before[i])), None)
            if last is None:
                return name in given
            return is_new(before[last].value, before[:last], given)
        case ast.Subscript(value=value):
            return is_new(value, before, given)
        case ast.BinOp(op=ast.MatMult()):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=name) as called):
            layer = words_of(own_attribute(called)) & _LAYERS
            return bool(layer or _OPERATORS.match(text(called))) or (name in _VIEWS and is_new(value, before, given))
        case _:
            return False


def kept(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the variables of a function whose values may live on after it, or are used in nested functions."""
    found: set[str] = set()
    nodes = list(nodes)
    copied = {
        part for node in nodes if isinstance(node, ast.Call) and _OPERATORS.match(text(node.func)) for part in node.args
    }
    for node in nodes:
        match node:
            case ast.List() if node in copied:  # `torch.cat([a, b])`
                pass
            case ast.Return(value=value) | ast.Yield(value=value) if value is not None:
                found |= _directly(value) | _viewed(value)
            case ast.AnnAssign(target=ast.Attribute() | ast.Subscript(), value=value) if value is not None:
                found |= _directly(value)
            case ast.Assign(targets=targets, value=value):
                flat = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
                stored = any(isinstance(each, ast.Attribute) or _is_item(each) for each in flat)
                found |= _directly(value) if stored else set()
                found |= (
                    _viewed(value) - bound_names(node) if all(isinstance(each, ast.Name) for each in targets) else set()
                )
            case ast.Call():
                found |= _kept_by(node)
            case ast.List() | ast.Dict() | ast.Set() | ast.Lambda() | ast.FunctionDef():
                found |= {part.id for part in walk(node) if isinstance(part, ast.Name)}
            case _:
                pass
    return found


def _kept_by(call: ast.Call) -> set[str]:
    """Return the variables that a call keeps, judging by its name, or that a new object may keep."""
    given = arguments_of(call)
    if last_name(call.func) in KEEPING or words_of(last_name(call.func)) & _STORING:
        return {name for part in given for name in names(part)}
    return {name for part in given for name in _directly(part)} if makes_object(call) else set()


def _is_item(target: ast.expr) -> bool:
    """Return whether a target is one item of a container, and not a part of a tensor: `kept[i]`, but not `kept[:i]`."""
    return isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice | ast.Tuple)


def _viewed(value: ast.expr) -> set[str]:
    """Return the variable that a value is, or is a view of."""
    source = viewed(value, _VIEWS)
    return {source.id} if isinstance(source, ast.Name) else set()


def _directly(value: ast.expr) -> set[str]:
    """Return the variables that are a value, or items of the tuple that it is."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return {part.id for part in parts if isinstance(part, ast.Name)}
