"""Tensors recorded on the stream that they come from, instead of the side stream that uses them (SYN201).

A side stream waits for the current stream and then uses a tensor. After the block, the tensor is recorded on the
current stream, which protects it against nothing: only `record_stream` with the side stream would.
"""

import ast
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    HOST_READS,
    WAITS,
    current_streams,
    entered_streams,
    is_current_stream,
    owner_of_call,
    parameters,
    stored_names,
    text,
    waits_for_current,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.recorded_streams import WORD, on_wrong_stream
from syncheck.rules.model import Family
from syncheck.semantics.python_api import MEMBERS_WITHOUT_MEMORY
from syncheck.source.expressions import last_name

Function = ast.FunctionDef | ast.AsyncFunctionDef

_HOST_WAITS = HOST_READS | {"synchronize"}
_CURRENT = "current_stream"
_HELP = "record it on the stream that uses it: `{tensor}.record_stream({stream})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return f".{WORD}(" in source and f"{_CURRENT}(" in source and ".wait_stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the records of tensors on the stream that a side stream has waited for to use them."""
    lines = lines_of(context.known, {Family.LIFETIME})
    for function, nodes in functions_with_nodes(context.tree):
        for call, tensor, stream in _misdirected(function, nodes):
            if call.lineno not in lines:
                advice = _HELP.format(tensor=tensor, stream=stream)
                yield on_wrong_stream(call, tensor, f"stream `{stream}`", function, context.sites, advice)


def _misdirected(function: Function, nodes: list[ast.AST]) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield the misdirected records in a function: the call, the tensor, and the stream that uses the tensor."""
    blocks = [node for node in nodes if isinstance(node, ast.With) and len(entered_streams(node)) == 1]
    inside = {inner for block in blocks for inner in walk(block)}
    outside = [node for node in nodes if node not in inside]
    given = {argument.arg for argument in parameters(function)}
    bound = (given | stored_names(outside)) - stored_names(inside)
    current = current_streams(outside)
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    records = [(call, owner_of_call(call), text(call.args[0])) for call in calls if _is_record(call)]
    for call, tensor, stream in records:
        is_own = stream in current or is_current_stream(call.args[0])
        if call in inside or not is_own or tensor not in bound or sum(tensor == other for _, other, _ in records) > 1:
            continue
        for block in blocks:
            side = text(entered_streams(block)[0])
            is_used = any(tensor in _used_in(statement) for statement in block.body) and not _waits_on_host(block)
            if block.lineno < call.lineno and is_used and _forks_only(side, calls, current):
                yield call, tensor, side


def _used_in(statement: ast.stmt) -> set[str]:
    """Return the variables that a statement reads, except for those of which it only reads the shape or the like."""
    nodes = walk(statement)
    asked = {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in MEMBERS_WITHOUT_MEMORY}
    return {node.id for node in nodes if isinstance(node, ast.Name) and node not in asked}


def _waits_on_host(block: ast.With) -> bool:
    """Return whether a call in a block makes the host wait for the stream of the block."""
    return any(isinstance(node, ast.Call) and last_name(node.func) in _HOST_WAITS for node in walk(block))


def _forks_only(side: str, calls: list[ast.Call], current: set[str]) -> bool:
    """Return whether a side stream waits for the current stream, and nothing else in a function waits."""
    waits = [call for call in calls if last_name(call.func) in WAITS]
    return bool(waits) and all(waits_for_current(call, side, current) for call in waits) and side not in current


def _is_record(call: ast.Call) -> bool:
    return last_name(call.func) == WORD and len(call.args) == 1
