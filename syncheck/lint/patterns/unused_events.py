"""Events that a function creates and records in vain (SYN105): nothing waits for them, or the work comes later."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint import deferred
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.nodes import children, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.early_records import early_record
from syncheck.lint.prefilter import CLOCKS, words_in
from syncheck.rules import unordered_side_stream

WORDS = re.compile(r"\.record_event\(|\bEvent\(\)")
"""Text that a file must contain for this rule to apply."""
_FLAW = "nothing waits for the event `{event}` that is recorded here, so it orders nothing"
_EARLY = "the event `{event}` is recorded before the work on its stream, so a wait for it does not cover that work"
_AFTER = "record `{event}` after that work"
_ADVICE = "let the stream that uses the recorded work wait for it: `torch.cuda.current_stream().wait_event({event})`"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def can_matter(text: str) -> bool:
    """Return whether this can be found in a file."""
    # The words come first: most files have none, and the pattern alone is 20 times as slow.
    return (".record_event(" in text or "Event()" in text) and WORDS.search(text) is not None


def findings(context: Context) -> Iterator[Finding]:
    """Yield the events in some functions that are recorded and never used otherwise, or before their work."""
    lines = {location.frame.line for finding in context.known for location in finding.locations}
    for function in context.functions:
        text = deferred.source_of(function)
        if _can_matter(words_in(function)) if text is None else "record" in text and WORDS.search(text):
            yield from _check(function, context.sites, lines)


def _can_matter(words: set[str]) -> bool:
    """Return whether a function that contains some names may record an event that it creates."""
    return "record_event" in words or words >= {"Event", "record"}


def _check(function: Function, sites: SourceSites, lines: set[int]) -> Iterator[Finding]:
    if not words_in(function).isdisjoint(CLOCKS):
        return  # it may measure how long a record takes
    nodes = walk(function)
    parents = {child: node for node in nodes for child in children(node)}
    uses: dict[str, list[ast.Name]] = {}
    for node in nodes:
        if isinstance(node, ast.Name):
            uses.setdefault(node.id, []).append(node)
    shared = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    for name, made in _events_in(nodes):
        others = [node for node in uses[name] if isinstance(node.ctx, ast.Load)]
        records = [parents[parents[node]] for node in others if _is_recorded(node, parents)]
        is_local = len(uses[name]) == len(others) + 1 and name not in shared
        if is_local and len(records) == len(others) and (records or _called(made) == "record_event"):
            location = sites.location(sites.id_of(records[0] if records else made, function.name))
            finding = Finding.of(unordered_side_stream.RULE, location, flaw=_FLAW.format(event=name))
            yield replace(finding, help=_ADVICE.format(event=name))
        elif len(uses[name]) == len(others) + 1 and (early := early_record(function, name, made)) is not None:
            record, begin = early
            if lines.intersection(range(record.lineno + 1, (function.end_lineno or 0) + 1)):
                continue
            location = sites.location(sites.id_of(record, function.name))
            finding = Finding.of(unordered_side_stream.RULE, location, flaw=_EARLY.format(event=name))
            work = sites.related(begin, function.name, "the work begins here")
            yield replace(finding, help=_AFTER.format(event=name), related=(work,))


def _events_in(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the variables that are bound to a new event without timing, and the calls that create it."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        is_plain = not node.value.args and not node.value.keywords
        if _called(node.value) == "record_event" or (_called(node.value) == "Event" and is_plain):
            for target in node.targets:
                if isinstance(target, ast.Name) and len(node.targets) == 1:
                    yield target.id, node.value


def _is_recorded(event: ast.Name, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a reference to an event only records it."""
    parent = parents[event]
    if isinstance(parent, ast.Attribute):
        call = parents[parent]
        return parent.attr == "record" and isinstance(call, ast.Call) and call.func is parent
    return False


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
