"""Results that a function drops while a stream, which nothing waits for before the end, may still read them (SYN201).

The memory belongs to the current stream, which may reuse it at once.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import may_wait, words_of
from syncheck.lint.nodes import bound_names, children, names, own_attribute, text, viewed, walk
from syncheck.rules import missing_record_stream
from syncheck.rules.model import Severity
from syncheck.source.expressions import last_name

_FORK = "wait_stream"
_OPERATORS = re.compile(
    r"^(?:F|torch\.nn\.functional)\.\w+$|^torch\.(?:matmul|mm|bmm|einsum|softmax|relu|addmm|baddbmm)$"
)
_LAYERS = frozenset("proj norm linear conv fc mlp attn attention embedding embed layer gate head qkv".split())
"""Words in the names of layers, whose results are new memory."""
_VIEWS = frozenset("view reshape flatten detach squeeze unsqueeze transpose permute narrow contiguous".split())
_HOST_WAITS = frozenset({"item", "cpu", "tolist", "numpy", "record_stream"})
"""Calls after which the host has waited, or the memory is protected."""
_KEEPING = frozenset("append appendleft put put_nowait add extend insert update save_for_backward".split())
_SHAPES = frozenset("shape size dim device dtype numel ndim is_cuda element_size nelement data_ptr".split())

Function = ast.FunctionDef | ast.AsyncFunctionDef


def findings(function: Function, block: ast.With, stream: str, sites: SourceSites) -> Iterator[Finding]:
    """Yield the results that a function drops too early, where a block on another stream reads them.

    Args:
        function: the function.
        block: a block in it; nothing in the function waits for its stream, or records it.
        stream: the source of that stream.
        sites: the call sites of the file.
    """
    nodes = list(own_nodes(function))
    bindings = sorted((node for node in nodes if isinstance(node, ast.Assign)), key=lambda node: node.lineno)
    if not _waits_for_current(block, nodes, stream, bindings) or _is_joined(block, nodes, stream):
        return
    if _has_results(block):
        return  # whoever gets them may wait at once
    before = [each for each in bindings if each.lineno < block.lineno]
    passed = _kept(nodes)
    for node in sorted(_read_in(block), key=lambda name: (name.lineno, name.col_offset)):
        if node.id not in passed and _is_new(node, before):
            passed.add(node.id)  # once
            location = sites.location(sites.id_of(node, function.name))
            facts = {"tensor": f"`{node.id}`", "user": f"stream `{stream}`", "verb": "reading"}
            yield replace(Finding.of(missing_record_stream.RULE, location, **facts), level=Severity.WARNING)


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
    """Return whether the stream of a block waits for the stream that is current before it."""
    current = {name for node in bindings if _is_current(node.value) for name in bound_names(node)}
    return any(
        isinstance(node, ast.Call)
        and node.lineno <= block.lineno
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == _FORK
        and text(node.func.value) == stream
        and any(_is_current(part) or text(part) in current for part in node.args)
        for node in nodes
    )


def _is_current(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "current_stream"


def _is_joined(block: ast.With, nodes: list[ast.AST], stream: str) -> bool:
    """Return whether something may wait for the stream of a block after it begins, or protects memory anywhere."""
    others = other_branches(nodes, block)
    for node in nodes:
        if not isinstance(node, ast.Call) or node.lineno in others:
            continue
        name, owner = last_name(node.func), node.func.value if isinstance(node.func, ast.Attribute) else None
        is_own = owner is not None and text(owner) == stream and name in {_FORK, "wait_event"}
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
    return [node for node in read if getattr(parents.get(node), "attr", "") not in _SHAPES]


def _is_new(node: ast.expr, before: list[ast.Assign]) -> bool:
    """Return whether a value is the result of an operator or a layer, or a view of one, after some assignments."""
    match node:
        case ast.Name(id=name):
            last = next((i for i in reversed(range(len(before))) if name in bound_names(before[i])), None)
            return last is not None and _is_new(before[last].value, before[:last])
        case ast.Subscript(value=value):
            return _is_new(value, before)
        case ast.BinOp(op=ast.MatMult()):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=name) as called):
            layer = words_of(own_attribute(called)) & _LAYERS
            return bool(layer or _OPERATORS.match(text(called))) or (name in _VIEWS and _is_new(value, before))
        case _:
            return False


def _kept(nodes: list[ast.AST]) -> set[str]:
    """Return the variables of a function whose values may live on after it, or are used in nested functions."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Return(value=value) | ast.Yield(value=value) if value is not None:
                found |= _directly(value)
            case ast.Assign(targets=targets, value=value):
                stored = any(isinstance(each, ast.Attribute) or _is_item(each) for each in targets)
                found |= _directly(value) if stored else set()
                found |= (
                    _viewed(value) - bound_names(node) if all(isinstance(each, ast.Name) for each in targets) else set()
                )
            case ast.Call(func=func, args=args) if last_name(func) in _KEEPING:
                found |= {name for part in args for name in names(part)}
            case ast.List() | ast.Dict() | ast.Set() | ast.Lambda() | ast.FunctionDef():
                found |= {part.id for part in walk(node) if isinstance(part, ast.Name)}
            case _:
                pass
    return found


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
