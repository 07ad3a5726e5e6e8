"""Waits for a stream right before the block that they should follow (SYN105), and `record_stream` with it (SYN202)."""

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from syncheck.findings import Finding
from syncheck.lint.interp.functions import block_nodes, functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    blocks_in,
    blocks_on,
    entered_streams,
    is_non_blocking,
    names,
    owner_of_call,
    stored_names,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream, useless_record_stream
from syncheck.source.expressions import has_line, last_name

_EARLY = "`{waiter}` waits for `{stream}` here, before the copies that it should wait for are started"
_HELP_EARLY = "move this call after the block, whose last line is {line}"
_REASON = "`{stream}` is the stream that has just been waited for; `{waiter}` uses the tensor from here on"
_HELP_RECORD = "call `{tensor}.record_stream({waiter})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "wait_stream(" in source and "record_stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the calls."""
    lines = lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        waits = [call for call in calls if last_name(call.func) == "wait_stream"]
        recorded = {text(call.args[0]) for call in calls if last_name(call.func) == "record_stream" and call.args}
        for steps in blocks_in(function, nodes):
            for step, after in pairwise(steps):
                waiter, stream = _wait(step)
                if not waiter or step.lineno in lines:
                    continue
                is_known = any(has_line(after, line) for line in lines)
                if waiter in recorded and not is_known and _is_early(stream, after, waits):
                    flaw = _EARLY.format(waiter=waiter, stream=stream)
                    advice = _HELP_EARLY.format(line=after.end_lineno)
                    yield context.sites.warning(unordered_side_stream.RULE, step, function.name, advice, flaw=flaw)
                record = _record(after)
                if record is None or waiter in recorded or text(record.args[0]) != stream:
                    continue
                if not _reads(stream, record, nodes) and not _makes(waiter, record, nodes):
                    yield _useless(record, waiter, function.name, context.sites)


def _makes(stream: str, record: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a block on a stream binds a recorded tensor, so that its memory belongs to that stream."""
    return any(owner_of_call(record) in stored_names(walk(block)) for block in blocks_on(stream, nodes))


def _reads(stream: str, record: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a block on a stream reads a recorded tensor that its function gets: it may be of another one."""
    tensor = owner_of_call(record)
    stored = stored_names(nodes)
    is_read = any(tensor in names(statement) for block in blocks_on(stream, nodes) for statement in block.body)
    return is_read and tensor not in stored


def _useless(record: ast.Call, waiter: str, function: str, sites: SourceSites) -> Finding:
    tensor = owner_of_call(record)
    reason = _REASON.format(stream=text(record.args[0]), waiter=waiter)
    advice = _HELP_RECORD.format(tensor=tensor, waiter=waiter)
    return sites.warning(useless_record_stream.RULE, record, function, advice, tensor=f"`{tensor}`", reason=reason)


def _wait(step: ast.stmt) -> tuple[str, str]:
    """Return the stream that a statement makes wait, and the one that it waits for; "" for any other statement."""
    match step:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=waiter, attr="wait_stream"), args=[stream])):
            return text(waiter), text(stream)
        case _:
            return "", ""


def _is_early(stream: str, after: ast.stmt, waits: Sequence[ast.Call]) -> bool:
    """Return whether a statement starts copies on a stream that nothing in the function waits for after it."""
    if not isinstance(after, ast.With):
        return False
    entered = set(map(text, entered_streams(after)))
    calls = [node for node in block_nodes(after) if isinstance(node, ast.Call)]
    is_copying = any(map(is_non_blocking, calls))
    later = [wait for wait in waits if wait.lineno > after.lineno and wait.args and text(wait.args[0]) == stream]
    targets = [target for node in block_nodes(after) if isinstance(node, ast.Assign) for target in node.targets]
    if targets and all(isinstance(target, ast.Attribute) for target in targets):
        return False  # the wait may be for the copies of the previous call
    is_joined_inside = any(last_name(call.func) in {"record", "record_event", "synchronize"} for call in calls)
    return stream in entered and is_copying and not later and not is_joined_inside


def _record(step: ast.stmt) -> ast.Call | None:
    """Return the call of `record_stream` in a statement, or in a loop over tensors."""
    calls = (node for node in walk(step) if isinstance(node, ast.Call) and last_name(node.func) == "record_stream")
    is_plain = isinstance(step, ast.Expr | ast.For)
    return next((call for call in calls if len(call.args) == 1), None) if is_plain else None
