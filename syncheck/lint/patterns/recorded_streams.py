"""Tensors that are recorded on the stream that they come from, instead of the stream that reads them (SYN201).

In a block of work on a side stream that waits for the current stream, `x.record_stream(current)` names the stream that
`x` comes from. It does not keep the memory from being reused while the side stream reads `x`.
"""

import ast
import re
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.nodes import entered_stream, text, walk
from syncheck.rules import missing_record_stream
from syncheck.source.expressions import arguments_of, last_name

WORD = "record_stream"
"""Word that a function must contain for this check to apply."""
_CURRENT = re.compile(r"\b(?:current|default)_stream\(")
_WAITS = frozenset({"wait_stream", "wait_event"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def findings(function: Function, sites: SourceSites) -> Iterator[Finding]:
    """Yield the tensors that a function records on the wrong stream."""
    nodes = list(own_nodes(function))
    sources = _current_streams(nodes)
    if not sources:
        return
    for block in (node for node in nodes if isinstance(node, ast.With)):
        side = _entered(block)
        if side and _waits(block, nodes, side, sources):
            for call, tensor in _recorded(block, sources, side):
                if not _is_joined(block, nodes, side):
                    yield on_wrong_stream(call, tensor, f"stream `{side}`", function, sites)


def on_wrong_stream(
    call: ast.Call, tensor: str, user: str, function: Function, sites: SourceSites, advice: str = ""
) -> Finding:
    """Return the finding about a record on a stream that does not use a tensor; `user`: the stream that does."""
    facts = {"tensor": f"`{tensor}`", "user": user, "verb": "reading"}
    return sites.warning(missing_record_stream.RULE, call, function.name, advice, **facts)


def _current_streams(nodes: list[ast.AST]) -> dict[str, int]:
    """Return the variables that are bound once, to a current stream, with the lines where they are bound."""
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]
    found: dict[str, int] = {}
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else []
        value = node.value if isinstance(node, ast.Assign) else None
        name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
        if isinstance(value, ast.Call) and stored.count(name) == 1 and _CURRENT.search(text(value)):
            found[name] = value.lineno
    return found


def _entered(block: ast.With) -> str:
    """Return the source of the stream that a block makes current; "" if there is none."""
    for item in block.items:
        stream = entered_stream(item.context_expr)
        if stream is not None:
            return text(stream) if isinstance(stream, ast.Name | ast.Attribute | ast.Subscript) else ""
    return ""


def _waits(block: ast.With, nodes: list[ast.AST], side: str, sources: dict[str, int]) -> bool:
    """Return whether the stream of a block waits for the stream that was current before it."""
    end = block.end_lineno or block.lineno
    return any(
        isinstance(node, ast.Call)
        and node.lineno <= end
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "wait_stream"
        and text(node.func.value) == side
        and len(node.args) == 1
        and (text(node.args[0]) in sources or bool(_CURRENT.search(text(node.args[0])) and node.lineno < block.lineno))
        for node in nodes
    )


def _recorded(block: ast.With, sources: dict[str, int], side: str) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls that record a tensor from outside a block on the stream that was current before it."""
    inside = [node for statement in block.body for node in walk(statement)]
    bound = {node.id for node in inside if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    calls = [node for node in inside if isinstance(node, ast.Call)]
    records = [(call, *_record(call)) for call in calls if last_name(call.func) == WORD]
    for call, tensor, stream in records:
        is_outer = stream in sources and sources[stream] < block.lineno
        if not tensor or tensor in bound or not is_outer or (tensor, side) in {(t, s) for _, t, s in records}:
            continue
        if any(other is not call and _is_given(other, tensor) for other in calls):
            yield call, tensor


def _record(call: ast.Call) -> tuple[str, str]:
    """Return the variable and the source of the stream of a call of `record_stream`; "" for any other owner."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_plain = isinstance(owner, ast.Name) and len(call.args) == 1
    return (owner.id, text(call.args[0])) if isinstance(owner, ast.Name) and is_plain else ("", "")


def _is_given(call: ast.Call, name: str) -> bool:
    """Return whether a call gets a variable as an argument, or a method of its value."""
    parts = [
        part.func.value if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else part
        for part in arguments_of(call)
    ]
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)


def _is_joined(block: ast.With, nodes: list[ast.AST], side: str) -> bool:
    """Return whether something may wait for the stream of a block after it begins."""
    for node in nodes:
        if not isinstance(node, ast.Call) or node.lineno < block.lineno or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        if (name in _WAITS and text(node.func.value) != side) or (name not in _WAITS and may_wait(name)):
            return True
    return False
