"""Calls for the current device in functions that use several devices without making them current (SYN105, SYN502).

A loop moves batches to one device after the other, and records an event, or takes a current stream, without naming the
device. Or a function synchronizes its devices by name, and once without a name, which waits for the current one only.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import names, recorded_event, stored_names, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream, wrong_device_sync
from syncheck.semantics.python_api import MEMBERS_WITHOUT_MEMORY
from syncheck.source.expressions import last_name

_SETTING = frozenset({"set_device"})
_OF_TENSORS = frozenset("to view reshape narrow copy_ add_ mul_ div_ zero_ clone detach float half contiguous".split())
"""Methods of tensors."""
_READS = frozenset({"numpy", "tolist"})
_EVENT = "`{event}` is recorded on the stream of the current device, but the work is on `{device}`"
_STREAM = "this is the current stream of the current device, but the loop uses `{device}`"
_NAME_STREAM = "name the stream: `{event}.record(torch.cuda.current_stream({device}))`"
_NAME_DEVICE = "name the device: `torch.cuda.current_stream({device})`"
_CURRENT = "the current device"
_CONSEQUENCE = "the work of this function is also on other devices, such as `{device}`"
_SYNCHRONIZE = "call `torch.cuda.synchronize({device})` for each device"


class _Turn(NamedTuple):
    """A loop that uses another device in each iteration.

    Attributes:
        loop: the loop, and `nodes`: the nodes of its body.
        device: the device of an iteration, as written.
        line: the line that uses it first.
    """

    loop: ast.For
    nodes: Sequence[ast.AST]
    device: str
    line: int


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "device" in source and any(
        word in source for word in (".record()", "current_stream()", "cuda.synchronize()")
    )


def findings(context: Context) -> Iterator[Finding]:
    """Yield the calls, as warnings, since all devices may be the same one."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        turns = [turn for node in nodes if isinstance(node, ast.For) for turn in _turns(node)]
        for call, device, event in (found for turn in turns for found in _without_device(turn)):
            if call.lineno not in lines:
                lines.add(call.lineno)
                flaw, advice = (_EVENT, _NAME_STREAM) if event else (_STREAM, _NAME_DEVICE)
                words = {"event": event, "device": device}
                yield context.sites.warning(
                    unordered_side_stream.RULE, call, function.name, advice.format(**words), flaw=flaw.format(**words)
                )
        for call, device in _synchronizations(nodes, turns):
            if call.lineno not in lines:
                consequence = _CONSEQUENCE.format(device=device)
                facts = {"synchronized": _CURRENT, "consequence": consequence}
                advice = _SYNCHRONIZE.format(device=device)
                yield context.sites.warning(wrong_device_sync.RULE, call, function.name, advice, **facts)


def _turns(loop: ast.For) -> Iterator[_Turn]:
    """Yield a loop that moves something to a device that changes with the iteration, or takes a stream of it."""
    nodes = [node for step in loop.body for node in walk(step)]
    if _sets_device(nodes):
        return
    varying = stored_names([*walk(loop.target), *nodes])
    for node in nodes:
        device = _device_used(node)
        if device is not None and names(device) & varying and _is_of_several(device, loop, nodes):
            yield _Turn(loop, nodes, text(device), device.lineno)
            return


def _sets_device(nodes: Sequence[ast.AST]) -> bool:
    """Return whether some nodes make a device current until further notice."""
    return any(isinstance(node, ast.Call) and last_name(node.func) in _SETTING for node in nodes)


def _in_contexts(nodes: Sequence[ast.AST]) -> set[ast.AST]:
    """Return the nodes in blocks that make a device or a stream current, judging by their contexts."""
    blocks = [node for node in nodes if isinstance(node, ast.With)]
    contexts = ((block, text(item.context_expr)) for block in blocks for item in block.items)
    entered = {block for block, context in contexts if "device" in context or "stream" in context}
    return {node for block in entered for step in block.body for node in walk(step)}


def _device_used(node: ast.AST) -> ast.expr | None:
    """Return the device to which a call moves something, or of which an item is taken; None for other nodes."""
    match node:
        case ast.Call(func=ast.Attribute(attr="to" | "cuda"), args=[device, *_]) if "dev" in text(device).lower():
            return device
        case ast.Subscript(value=owner, slice=ast.Name(id=name) as device) if "dev" in name.lower():
            return device if "stream" in text(owner) else None
        case _:
            return None


def _is_of_several(device: ast.expr, loop: ast.For, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a device is one of several: an item of a list, of an object in a list, or of the loop itself."""
    if isinstance(device, ast.Subscript):
        return True
    root = next(iter(names(device)))
    if isinstance(device, ast.Attribute) and any(_uses_tensor(node, root) for node in nodes):
        return False  # one process usually has the tensors of all iterations on one device
    if root in stored_names(walk(loop.target)):
        return "dev" in root.lower() or "replica" in text(loop.iter) or isinstance(device, ast.Attribute)
    made = (
        node.value for node in nodes if isinstance(node, ast.Assign) and root in stored_names([node, *node.targets])
    )
    return any(isinstance(value, ast.Subscript) for value in made)


def _uses_tensor(node: ast.AST, name: str) -> bool:
    """Return whether a node uses a variable as only tensors are used: `x.shape`, `x.to(dtype)`, `x[:, 1]`."""
    match node:
        case ast.Attribute(value=ast.Name(id=used), attr=member) if member != "device":
            return used == name and (member in MEMBERS_WITHOUT_MEMORY or member in _OF_TENSORS)
        case ast.Subscript(value=ast.Name(id=used), slice=ast.Tuple() | ast.Slice()):
            return used == name
        case _:
            return False


def _without_device(turn: _Turn) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield the calls of a loop for the current device, with its own device and the event that a call records."""
    inside = _in_contexts(turn.nodes)
    for call in (node for node in turn.nodes if isinstance(node, ast.Call) and node not in inside):
        event = recorded_event(call)
        if call.args or call.keywords:
            continue
        if event is not None and call.lineno > turn.line:
            yield call, turn.device, text(event)
        elif last_name(call.func) == "current_stream" and "[" not in turn.device:
            yield call, turn.device, ""


def _synchronizations(nodes: Sequence[ast.AST], turns: Sequence[_Turn]) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls that wait for the current device only, with one of the other devices.

    The function names its devices in other such calls, or a loop before has used one after the other, and the host
    reads results afterwards.
    """
    if _sets_device(nodes) or _in_contexts(nodes):
        return
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    synchronizing = [call for call in calls if text(call.func) == "torch.cuda.synchronize"]
    named = [text(call.args[0]) for call in synchronizing if call.args]
    for call in (call for call in synchronizing if not call.args and not call.keywords):
        before = [turn for turn in turns if (turn.loop.end_lineno or turn.loop.lineno) < call.lineno]
        reads = any(last_name(other.func) in _READS and other.lineno > call.lineno for other in calls)
        if len(set(named)) > 1:
            yield call, named[0]
        elif before and reads:
            yield call, before[0].device
