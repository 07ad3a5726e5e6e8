"""Memory that a method allocates on its callers' stream, and that a block on a side stream overwrites at once.

The allocator may reuse memory that the callers' stream still reads, since that stream would get to the new owner later.
The side stream must wait for it before it writes (SYN104). If the memory is filled first, the fill may also come after
the copy (SYN103).
"""

import ast
from typing import NamedTuple

from syncheck.lint.host_waits import may_come_before, method_around
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.nodes import Method, is_on_stream, methods_of, own_attribute, text, viewed, walk
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty"})
_FILLED = frozenset("zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full".split())
_OF_THE_HOST = frozenset("cpu host pin pinned meta offload storage".split())
"""Words for devices that are not GPUs."""
_VIEWS = frozenset("view reshape flatten squeeze unsqueeze transpose permute narrow detach data".split())
_FORKS = frozenset({"wait_stream", "wait_event", "wait"})


class FreshMemory(NamedTuple):
    """Memory that is overwritten too early.

    Attributes:
        name: the variable or attribute, as it is written.
        write: the call that overwrites it.
        allocation: where it is allocated.
        is_filled: whether it is filled, too, on the stream that allocates it.
    """

    name: str
    write: ast.Call
    allocation: ast.Assign
    is_filled: bool


def fresh_memory(kind: ast.ClassDef, block: ast.With, stream: str, blocks: list[ast.With]) -> FreshMemory | None:
    """Return memory of another stream that a block overwrites, where its stream did not wait; None if there is none.

    Args:
        kind: the class.
        block: a block in it.
        stream: the attribute of `self` with the stream of the block, which nothing in the file makes wait.
        blocks: all blocks on the same stream.
    """
    written = _written(block)
    method = method_around(kind, block) if written else None
    if method is None or may_come_before(kind, block, stream) or _may_be_ordered(kind, method, block, stream, blocks):
        return None
    inside = {
        node
        for other in own_nodes(method)
        if isinstance(other, ast.With) and is_on_stream(other)
        for node in walk(other)
    }
    bound = [node for node in own_nodes(method) if isinstance(node, ast.Assign) and node.lineno < block.lineno]
    for name, call in written.items():
        made = [node for node in bound if name in {text(target) for target in node.targets}]
        latest = max(made, key=lambda node: node.lineno, default=None)
        if latest is None or latest in inside or _is_rebound(method, name, latest.lineno, block.lineno):
            continue
        called = latest.value
        if isinstance(called, ast.Call) and _is_on_gpu(called):
            is_filled = last_name(called.func) in _FILLED
            if is_filled or method.name != "__init__":  # little was freed before that
                return FreshMemory(name, call, latest, is_filled)
    return None


def _written(block: ast.With) -> dict[str, ast.Call]:
    """Return what a block copies into without waiting, as it is written, with the first copy into each."""
    found: dict[str, ast.Call] = {}
    for node in block_nodes(block):
        match node:
            case ast.Call(func=ast.Attribute(value=target, attr="copy_"), keywords=[ast.keyword(arg="non_blocking")]):
                found.setdefault(text(viewed(target, _VIEWS)), node)
            case _:
                pass
    return found


def _may_be_ordered(kind: ast.ClassDef, method: Method, block: ast.With, stream: str, blocks: list[ast.With]) -> bool:
    """Return whether the stream may have waited for the callers' stream, or may be current, before a block."""
    inside = {node for other in blocks for node in block_nodes(other)}
    if any(isinstance(node, ast.Call) and last_name(node.func) == method.name for node in inside):
        return True
    calls = [node for node in own_nodes(method) if isinstance(node, ast.Call)]
    last = block.end_lineno or block.lineno
    if any(node.lineno <= last and _is_fork(node, stream, is_inside=node in inside) for node in calls):
        return True
    callers = [
        [node for node in own_nodes(other) if isinstance(node, ast.Call)]
        for other in methods_of(kind).values()
        if other is not method
    ]
    return any(
        any(own_attribute(node.func) == method.name for node in called)
        and any(_is_fork(node, stream, is_inside=node in inside) for node in called)
        for called in callers
    )


def _is_rebound(method: Method, name: str, first: int, last: int) -> bool:
    """Return whether a method binds a variable or an attribute in another way between two lines."""
    nodes = (node for node in own_nodes(method) if isinstance(node, ast.Name | ast.Attribute) and text(node) == name)
    return any(first < node.lineno < last and not isinstance(node.ctx, ast.Load) for node in nodes)


def _is_fork(call: ast.Call, stream: str, *, is_inside: bool) -> bool:
    """Return whether a call makes a stream of `self`, or the stream of the block around it, wait."""
    if last_name(call.func) not in _FORKS or not isinstance(call.func, ast.Attribute):
        return False
    return is_inside or stream in map(own_attribute, (call.func.value, *call.args))


def _is_on_gpu(call: ast.Call) -> bool:
    """Return whether a call allocates a tensor on a device whose name does not mean the host."""
    given = {word.arg: word.value for word in call.keywords}
    device = given.get("device")
    if last_name(call.func) not in _EMPTY | _FILLED or device is None or "pin_memory" in given:
        return False
    return not words_of(ast.unparse(device)) & _OF_THE_HOST
