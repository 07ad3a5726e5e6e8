"""Tensors recorded on the stream that they come from, instead of the side stream that uses them (SYN201).

A side stream waits for the current stream and then uses a tensor. After the block, the tensor is recorded on the
current stream, which protects it against nothing: only `record_stream` with the side stream would.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import entered_streams, functions_in, names, parameters, text, walk
from syncheck.rules import missing_record_stream
from syncheck.rules.model import Family, Severity
from syncheck.source.expressions import last_name

Function = ast.FunctionDef | ast.AsyncFunctionDef

_RECORD = "record_stream"
_CURRENT = "current_stream"
_JOINS = frozenset({"wait", "wait_stream", "wait_event", "synchronize"})
_HELP = "record it on the stream that uses it: `{tensor}.record_stream({stream})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return f".{_RECORD}(" in source and f"{_CURRENT}(" in source and ".wait_stream(" in source


def findings(tree: ast.Module, sites: SourceSites, known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the records of tensors on the stream that a side stream has waited for to use them.

    Args:
        tree: the file.
        sites: the call sites of the file.
        known: the findings on paths through the file. One about the same tensor is more specific.
    """
    lines = lines_of(known, {Family.LIFETIME})
    for function in functions_in(tree):
        for call, tensor, stream in _misdirected(function):
            if call.lineno not in lines:
                location = sites.location(sites.id_of(call, function.name))
                facts = {"tensor": f"`{tensor}`", "user": f"stream `{stream}`", "verb": "reading"}
                found = Finding.of(missing_record_stream.RULE, location, **facts)
                yield replace(found, level=Severity.WARNING, help=_HELP.format(tensor=tensor, stream=stream))


def _misdirected(function: Function) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield the misdirected records in a function: the call, the tensor, and the stream that uses the tensor."""
    nodes = list(own_nodes(function))
    blocks = [node for node in nodes if isinstance(node, ast.With) and len(entered_streams(node)) == 1]
    inside = {inner for block in blocks for inner in walk(block)}
    outside = [node for node in nodes if node not in inside]
    given = {argument.arg for argument in parameters(function)}
    bound = (given | _assigned(outside)) - _assigned(inside)
    current = {
        text(target)
        for node in outside
        if isinstance(node, ast.Assign) and _is_current(node.value)
        for target in node.targets
    }
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    records = [(call, _owner(call), text(call.args[0])) for call in calls if _is_record(call)]
    for call, tensor, stream in records:
        is_own = stream in current or _is_current(call.args[0])
        if call in inside or not is_own or tensor not in bound or sum(tensor == other for _, other, _ in records) > 1:
            continue
        for block in blocks:
            side = text(entered_streams(block)[0])
            is_used = any(tensor in names(statement) for statement in block.body)
            if block.lineno < call.lineno and is_used and _forks_only(side, calls, current):
                yield call, tensor, side


def _forks_only(side: str, calls: list[ast.Call], current: set[str]) -> bool:
    """Return whether a side stream waits for the current stream, and nothing else in a function waits."""
    waits = [call for call in calls if last_name(call.func) in _JOINS]
    are_forks = all(
        _owner(call) == side and call.args and (text(call.args[0]) in current or _is_current(call.args[0]))
        for call in waits
    )
    return bool(waits) and are_forks and side not in current


def _assigned(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _owner(call: ast.Call) -> str:
    """Return the object whose method is called."""
    return text(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _is_record(call: ast.Call) -> bool:
    return last_name(call.func) == _RECORD and len(call.args) == 1


def _is_current(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) == _CURRENT
