"""Events whose time is asked for although the host has not waited for them (SYN404).

Either only a stream waits for the event, or `query()` has just returned False for it, or it was recorded in the
statement before, or the file contains nothing for which the host waits.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.guards import leaves
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import awaited_event, blocks_in, branches, functions_in, recorded_event, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.prefilter import words_in
from syncheck.rules import elapsed_time_before_sync
from syncheck.source.expressions import last_name

_HOST_WAITS = re.compile(r"synchroni|query|sleep|join|barrier|^(item|tolist|cpu|numpy|result|get)$")
_MAY_COMPLETE = re.compile(
    r"synchroni|\bsync\b|\.(?:query|item|tolist|cpu|numpy|wait|join|result|get|all|any)\(|barrier|sleep|nonzero|"
    r"save\(|to\(\s*(?:device\s*=\s*)?['\"]cpu|\b(?:float|int|bool)\(|blocking|from \.|import \*"
)
"""Code for which the host may wait for the GPU, here or in another file."""
_MAY_WAIT = re.compile(r"synchroni|wait|sleep|join|barrier|drain|flush")
_REPORTS = re.compile(r"log|print|debug|info|warn|error|repr|str|append")
_HELP = "call `{event}.synchronize()` before line {line}"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    if "elapsed_time(" not in source:
        return False
    return any(word in source for word in (".wait(", "wait_event(", ".query(", ".record("))


def _never_waits(source: str) -> bool:
    """Return whether a file that records the events itself contains nothing for which the host may wait."""
    is_own = ".record(" in source and "Event(" in source and "def elapsed_time" not in source
    return is_own and _MAY_COMPLETE.search(source) is None


def findings(context: Context) -> Iterator[Finding]:
    """Yield the calls of `elapsed_time`."""
    lines = main_lines_of(context.known)
    waiting = {
        step.name for step in functions_in(context.tree) if not words_in(step).isdisjoint({"synchronize", "query"})
    }
    never_waits = _never_waits(context.sites.text)
    for function, nodes in functions_with_nodes(context.tree):
        asking = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "elapsed_time"]
        if not asking or _calls_any(nodes, waiting):
            continue
        for call in asking:
            if call.lineno in lines or not call.args:
                continue
            blocks = list(blocks_in(function, nodes))
            is_pending = _is_awaited_by_stream(call, nodes) or _is_begun(call, nodes) or _is_queried(call, blocks)
            if is_pending or _is_just_recorded(call, blocks) or (never_waits and not _prints_before(call, nodes)):
                yield _finding(call, function.name, context.sites)


def _calls_any(nodes: Iterable[ast.AST], functions: Set[str]) -> bool:
    """Return whether some nodes call one of some functions of the file."""
    return any(isinstance(node, ast.Call) and last_name(node.func) in functions for node in nodes)


def _finding(call: ast.Call, function: str, sites: SourceSites) -> Finding:
    event = text(call.args[0])
    advice = _HELP.format(event=event, line=call.lineno)
    return sites.warning(elapsed_time_before_sync.RULE, call, function, advice, event=f"`{event}`")


def _is_awaited_by_stream(call: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function makes a stream, but not the host, wait for the last event of an interval."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if any(_HOST_WAITS.search(last_name(other.func)) for other in calls):
        return False
    end = text(call.args[0])
    awaited = [awaited_event(other) for other in calls if other.lineno <= call.lineno]
    return any(text(event) == end for event in awaited if event is not None)


def _is_queried(call: ast.Call, blocks: Iterable[list[ast.stmt]]) -> bool:
    """Return whether the last event of an interval may be incomplete, since nothing follows from its `query()`."""
    end = text(call.args[0])
    for steps in blocks:
        for index, step in enumerate(steps):
            if isinstance(step, ast.If) and _is_ignored(step, end):
                after = [node for other in steps[index + 1 :] for node in walk(other)]
                before = after[: after.index(call)] if call in after else after
                waiting = [node for node in before if isinstance(node, ast.Call) and node.lineno < call.lineno]
                if call in after and not any(_MAY_WAIT.search(last_name(node.func)) for node in waiting):
                    return True
    return False


def _is_just_recorded(call: ast.Call, blocks: Iterable[list[ast.stmt]]) -> bool:
    """Return whether the statement before a call of `elapsed_time` records the last event of the interval."""
    end = text(call.args[0])
    for before, step in (pair for steps in blocks for pair in pairwise(steps)):
        event = recorded_event(before.value) if isinstance(before, ast.Expr) else None
        if event is not None and text(event) == end and not branches(step):
            nodes = walk(step)
            called = [last_name(node.func) for node in nodes if isinstance(node, ast.Call)]
            return call in nodes and not any(_HOST_WAITS.search(name) for name in called)
    return False


def _prints_before(call: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function prints something before a call: the host waits for a tensor that it prints."""
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return any(last_name(other.func) == "print" and other.lineno < call.lineno for other in calls)


def _is_begun(call: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function asks only whether the first event of an interval is complete, by their names."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    asked = [node.func.value for node in calls if isinstance(node.func, ast.Attribute) and node.func.attr == "query"]
    others = (node for node in calls if last_name(node.func) != "query")
    if not asked or any(_HOST_WAITS.search(last_name(node.func)) for node in others):
        return False
    start = call.func.value if isinstance(call.func, ast.Attribute) else None
    first, last = last_name(start), last_name(call.args[0])
    return first != last and {last_name(event) for event in asked} == {first}


def _gets(call: ast.Call, event: str) -> bool:
    """Return whether a call that does more than report gets an event: it may wait for it."""
    return event in map(text, call.args) and not _REPORTS.search(last_name(call.func))


def _is_ignored(step: ast.If, event: str) -> bool:
    """Return whether a branch is taken if an event is not complete, and neither waits for it nor leaves."""
    match step.test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Attribute(value=queried, attr="query"))):
            calls = [node for node in walk(step) if isinstance(node, ast.Call)]
            may_wait = any(_MAY_WAIT.search(last_name(call.func)) or _gets(call, event) for call in calls)
            return text(queried) == event and not may_wait and not leaves(step.body) and not step.orelse
        case _:
            return False
