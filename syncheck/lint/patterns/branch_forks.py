"""Side streams that wait for the current stream in only one of two branches (SYN105).

Both branches bind what the stream then uses. If one must wait, so must the other.
"""

import ast
import re
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.guards import leaves
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    blocks_in,
    bound_names,
    current_streams,
    entered_streams,
    names,
    own_container,
    text,
    waits_for_current,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.rules.model import Family
from syncheck.source.expressions import last_name

_CURRENT = "current_stream"
_FORKS = frozenset({"wait_stream", "wait_event"})
_ABOUT_PLACE = re.compile(r"cuda|cpu|gpu|device|pin|host|stream|event")
"""Words of conditions that say where the data is, or whether anything is pending."""
_ELSEWHERE = re.compile(
    r"pin_memory|numpy|synchron|\.(?:cpu|cuda|to)\(|torch\.(?:load|empty|zeros|ones|full|tensor)|[Ee]vent"
)
"""Calls of branches whose data comes from the host, or which wait in another way."""
_FLAW = "stream `{stream}` waits for the stream that computes `{name}` in only one of two branches"
_HELP = "move `{wait}` below the branches, so that both wait"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".wait_stream(" in source and f"{_CURRENT}(" in source and "stream(" in source and "else:" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the blocks on a stream that has waited in only one of the branches before."""
    lines = lines_of(context.known, frozenset(Family) - {Family.HOST})
    for function, nodes in functions_with_nodes(context.tree):
        current = current_streams(nodes)
        pairs = [pair for body in blocks_in(function, nodes) for pair in _pairs(body)]
        waits = [node for node in nodes if isinstance(node, ast.Call) and _may_order(node)] if pairs else []
        for branch, block in pairs if len(waits) == 1 else ():
            wait, stream = waits[0], text(entered_streams(block)[0])
            if not _is_fork(wait, stream, current):
                continue
            name = (_given_by_both(branch, wait) & _used(block)) - _kept_by(block, branch)
            span = set(range(block.lineno, (block.end_lineno or block.lineno) + 1))
            if name and not lines & span:
                entered, flaw = entered_streams(block)[0], _FLAW.format(stream=stream, name=min(name))
                advice = _HELP.format(wait=text(wait))
                yield context.sites.warning(unordered_side_stream.RULE, entered, function.name, advice, flaw=flaw)


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[ast.If, ast.With]]:
    """Yield the blocks on a stream in a list of statements, each with a statement of two branches before it."""
    branches: list[ast.If] = []
    for step in body:
        if isinstance(step, ast.If) and step.orelse and not leaves(step.body) and not leaves(step.orelse):
            branches.append(step)
        elif isinstance(step, ast.With) and len(entered_streams(step)) == 1:
            yield from ((branch, step) for branch in branches)


def _may_order(call: ast.Call) -> bool:
    """Return whether a call may order streams or make the host wait, other than by recording an event."""
    name = last_name(call.func)
    return name in _FORKS or (may_wait(name) and name not in {_CURRENT, "record_event", "record"})


def _is_fork(call: ast.Call, stream: str, current: set[str]) -> bool:
    """Return whether a call makes a stream wait for the current stream; `current`: the variables that hold it."""
    return last_name(call.func) == "wait_stream" and waits_for_current(call, stream, current)


def _given_by_both(branch: ast.If, wait: ast.Call) -> set[str]:
    """Return the variables that both branches bind, if one waits and only the other may differ in what it binds."""
    inside = {node for step in branch.body for node in walk(step)}
    others = {node for step in branch.orelse for node in walk(step)}
    if (wait in inside) == (wait in others):
        return set()
    other = branch.orelse if wait in inside else branch.body
    if _ABOUT_PLACE.search(text(branch.test)) or any(_ELSEWHERE.search(text(step)) for step in other):
        return set()
    return _bound(branch.body) & _bound(branch.orelse)


def _kept_by(block: ast.With, branch: ast.If) -> set[str]:
    """Return the variables that a branch binds to items which the block itself has stored, on its own stream."""
    stored = {own_container(target) for node in walk(block) if isinstance(node, ast.Assign) for target in node.targets}
    assigned = [node for node in walk(branch) if isinstance(node, ast.Assign)]
    return {name for node in assigned if own_container(node.value) in stored - {""} for name in bound_names(node)}


def _bound(body: list[ast.stmt]) -> set[str]:
    return {name for step in body if isinstance(step, ast.Assign) for name in bound_names(step)}


def _used(block: ast.With) -> set[str]:
    return {name for step in block.body for name in names(step)}
