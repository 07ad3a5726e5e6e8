"""Waits for the event of another slot than the one that is overwritten then (SYN105).

One function uses `slots[i]` and then records `free[i]`, so the event with an index stands for the last use of the slot
with that index. Another function waits for an event with an index computed from `k`, and then fills `slots[k]`.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import awaited_event, changed_in_place, names, recorded_event, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import last_name

_FLAW = "`{event}` is not the event of `{slot}`, which is overwritten after this wait: `{own}` is"
_HELP = "wait for `{own}`"
_WAITS = frozenset({"wait_stream", "synchronize"})


class _Pair(NamedTuple):
    """A container of events that stand for the last use of the slots in another container, as written."""

    events: str
    slots: str


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "%" in source and ".record" in source and "wait" in source and "Event" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the waits, as warnings, since another file may wait for the right event."""
    functions = functions_with_nodes(context.tree)
    pairs = {pair for _, nodes in functions for pair in _pairs(nodes)}
    lines = lines_of(context.known)
    for function, nodes in functions if pairs else ():
        for wait, event, slot, own in _mismatches(nodes, pairs):
            if not lines & {wait.lineno, slot.lineno}:
                flaw = _FLAW.format(event=text(event), slot=text(slot), own=own)
                advice = _HELP.format(own=own)
                yield context.sites.warning(unordered_side_stream.RULE, wait, function.name, advice, flaw=flaw)


def _pairs(nodes: Sequence[ast.AST]) -> Iterator[_Pair]:
    """Yield what a function passes to a call before it records an event with the same index."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for record in calls:
        event = recorded_event(record)
        if not isinstance(event, ast.Subscript) or not isinstance(event.slice, ast.Name | ast.BinOp):
            continue
        for call in calls:
            if call.lineno < record.lineno and last_name(call.func) not in {"wait_event", "wait", "record_stream"}:
                for given in call.args:
                    if isinstance(given, ast.Subscript) and text(given.slice) == text(event.slice):
                        yield _Pair(text(event.value), text(given.value))


def _mismatches(
    nodes: Sequence[ast.AST], pairs: set[_Pair]
) -> Iterator[tuple[ast.Call, ast.Subscript, ast.Subscript, str]]:
    """Yield each wait for an event with an index, and the slot with another index that the function then fills.

    The event of the slot comes last. A function that waits for it anywhere, or for a whole stream, is left out.
    """
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if any(last_name(call.func) in _WAITS for call in calls):
        return
    waits = [(call, event) for call in calls if isinstance(event := awaited_event(call), ast.Subscript)]
    awaited = {text(event) for _, event in waits}
    for wait, event in waits:
        for slot in _filled(nodes):
            own = f"{text(event.value)}[{text(slot.slice)}]"
            is_pair = _Pair(text(event.value), text(slot.value)) in pairs and slot.lineno > wait.lineno
            is_other = isinstance(slot.slice, ast.Name) and isinstance(event.slice, ast.BinOp)
            if is_pair and own not in awaited and is_other and names(slot.slice) <= names(event.slice):
                yield wait, event, slot, own
                break


def _filled(nodes: Sequence[ast.AST]) -> Iterator[ast.Subscript]:
    """Yield the items that a function writes: themselves, or their parts in a loop."""
    for node in nodes:
        match node:
            case ast.For(iter=source, body=body):
                if any(changed_in_place(inner) is not None for step in body for inner in walk(step)):
                    yield from (part for part in walk(source) if isinstance(part, ast.Subscript))
            case ast.Call(func=ast.Attribute(value=ast.Subscript() as target, attr="copy_")):
                yield target
            case _:
                pass
