"""Buffers of an object that blocks on a side stream fill again and again, with one content after the other.

The stream that uses the contents waits for them. The side stream must wait, too, before the next content overwrites
what may still be in use.
"""

import ast
from collections.abc import Iterable, Iterator, Set

from syncheck.lint.host_waits import may_wait_around, method_around
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.nodes import HOST_READS, Method, bound_names, methods_of, names, own_attribute, walk
from syncheck.lint.overwritten_buffers import Overwritten, rebound_attributes
from syncheck.source.expressions import has_line, last_name
from syncheck.source.words import words_of

_TAKING = frozenset("pop popleft popitem allocate alloc acquire evict reserve take".split())
"""Words in the names of calls that return a slot that was in use before."""
_REUSED = frozenset("evict evicted eviction victim old free reused".split())
"""Words in the names of such slots."""
_PREPARING = frozenset("init load setup build register prepare create reset initialize".split())
"""Words in the names of methods that fill buffers once."""


def reused_buffer(kind: ast.ClassDef, block: ast.With, stream: str) -> Overwritten | None:
    """Return a buffer that a block fills repeatedly; None if there is none.

    Args:
        kind: the class.
        block: a block in it, on a stream that never waits for another one.
        stream: the attribute of `self` with the stream.
    """
    method = method_around(kind, block)
    if method is None or words_of(method.name) & _PREPARING or may_wait_around(kind, block, stream):
        return None
    inside, methods = block_nodes(block), methods_of(kind)
    if _reads_after(method, block):
        return None
    calls = [node for node in inside if isinstance(node, ast.Call)]
    called = [methods[name] for call in calls if (name := own_attribute(call.func)) in methods]
    advanced = set(_advanced(kind))
    found = [*_Fills(own_nodes(method), advanced).among(inside)]
    found += [fill for step in called for fill in _Fills(own_nodes(step), advanced).among(own_nodes(step))]
    rebound = rebound_attributes(kind)
    return min((fill for fill in found if fill.name not in rebound), key=lambda fill: fill.write.lineno, default=None)


def _reads_after(method: Method, block: ast.With) -> bool:
    """Return whether a method reads a value on the host after a block: all that it used is complete then."""
    calls = (node for node in own_nodes(method) if isinstance(node, ast.Call))
    return any(
        last_name(call.func) in HOST_READS and not has_line(block, call.lineno)
        for call in calls
        if call.lineno > block.lineno
    )


def _advanced(kind: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes of `self` that methods of a class increment."""
    for node in walk(kind):
        if isinstance(node, ast.AugAssign) and (name := own_attribute(node.target)):
            yield name


class _Fills:
    """The copies into buffers of `self` that a function makes.

    Args:
        nodes: the nodes of the function.
        advanced: the attributes of `self` that count.
    """

    def __init__(self, nodes: Iterable[ast.AST], advanced: Set[str]) -> None:
        self._bound = {name: node.value for node in nodes if isinstance(node, ast.Assign) for name in bound_names(node)}
        self._advanced = advanced

    def among(self, nodes: Iterable[ast.AST]) -> Iterator[Overwritten]:
        """Yield the buffers that copies among some nodes fill with varying contents."""
        for node in nodes:
            match node:
                case ast.Call(
                    func=ast.Attribute(value=target, attr="copy_"),
                    args=[source],
                    keywords=[ast.keyword(arg="non_blocking", value=value)],
                ) if not (isinstance(value, ast.Constant) and not value.value):
                    owner, indices = self._place(target)
                    varying = _varying(source)
                    if owner and varying and varying.isdisjoint(indices) and self._are_reused(indices):
                        yield Overwritten(owner, node)
                case _:
                    pass

    def _place(self, target: ast.expr) -> tuple[str, frozenset[str]]:
        """Return the attribute of `self` that a target is part of, and the variables that select the part."""
        if isinstance(target, ast.Name):
            target = self._bound.get(target.id, target)
        indices: frozenset[str] = frozenset()
        while not own_attribute(target):
            match target:
                case ast.Subscript(value=inner, slice=index):
                    indices |= names(index)
                case ast.Call(func=ast.Attribute(value=inner), args=given):
                    indices = indices.union(*map(names, given))
                case ast.Attribute(value=inner):
                    pass
                case _:
                    return "", indices
            target = inner
        return own_attribute(target), indices - {"self"}

    def _are_reused(self, indices: frozenset[str]) -> bool:
        """Return whether the part of a buffer that some variables select was in use before; all of it always was."""
        return not indices or any(map(self._is_reused, indices))

    def _is_reused(self, index: str) -> bool:
        value = self._bound.get(index)
        if words_of(index) & _REUSED:
            return True
        inside = walk(value) if value is not None else []
        return any(
            (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod))
            or (isinstance(node, ast.Call) and bool(words_of(last_name(node.func)) & _TAKING))
            or own_attribute(node) in self._advanced
            for node in inside
        )


def _varying(source: ast.expr) -> frozenset[str]:
    """Return the variables that select what is copied: the indices of an item, or the variable itself."""
    if isinstance(source, ast.Name):
        return frozenset({source.id})
    indices = (node.slice for node in walk(source) if isinstance(node, ast.Subscript))
    return frozenset[str]().union(*map(names, indices)) - {"self"}
