"""Streams that are to wait for the current stream inside their own block, where that is the stream itself (SYN105)."""

import ast
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import block_nodes, functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import current_streams, entered_streams, is_current_stream, owner_of_call, text
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream

_FLAW = "`{stream}` waits for itself here: inside its block, it is the current stream"
_HELP = "call `{stream}.wait_stream(torch.cuda.current_stream())` before the block"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "wait_stream(" in source and "current_stream(" in source and "stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the waits, as warnings."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        owners = [owner_of_call(node) for node in nodes if isinstance(node, ast.Call) and _waits_for_other(node)]
        for block in (node for node in nodes if isinstance(node, ast.With)):
            for stream in map(text, entered_streams(block)[-1:]):
                for call in _own_waits(block, stream) if owners.count(stream) == 1 else ():
                    if call.lineno not in lines:
                        flaw, advice = _FLAW.format(stream=stream), _HELP.format(stream=stream)
                        yield context.sites.warning(unordered_side_stream.RULE, call, function.name, advice, flaw=flaw)


def _own_waits(block: ast.With, stream: str) -> Iterator[ast.Call]:
    """Yield the calls in a block on a stream that make this stream wait for the current one."""
    inside = block_nodes(block)
    current = current_streams(inside)
    yield from (node for node in inside if isinstance(node, ast.Call) and _waits_for(node, stream, current))


def _waits_for_other(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"wait_stream", "wait_event"}


def _waits_for(call: ast.Call, stream: str, current: set[str]) -> bool:
    """Return whether a call makes a stream wait for the current stream, or for a variable that was bound to it."""
    match call:
        case ast.Call(func=ast.Attribute(value=waiter, attr="wait_stream"), args=[awaited]):
            return text(waiter) == stream and (is_current_stream(awaited) or text(awaited) in current)
        case _:
            return False
