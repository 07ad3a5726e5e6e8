"""Timers that read the clock right before the host waits for the GPU, so that they include earlier work (SYN701)."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import lines_about
from syncheck.lint.nodes import Method, blocks_in, text
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.late_synchronizations import Waits, can_matter
from syncheck.lint.prefilter import CLOCKS, clock_aliases, words_in
from syncheck.rules import unsynchronized_timing
from syncheck.rules.model import Severity
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

__all__ = ["can_matter", "findings"]

_STARTING = frozenset({"__enter__", "start", "begin", "tic", "start_timer"})
"""Names of methods that start a timer."""
_ASKED = frozenset("sync synchronize synchronized cuda gpu device".split())
"""Words in conditions for a wait: `if self.cuda_sync`."""
_MESSAGE = "this interval includes earlier work: the host waits for the GPU after it reads the clock"
_HELP = "move line {line} after the call of `synchronize` in line {wait}"
_WORK = "what the caller has launched before is still running until here"


def findings(context: Context) -> Iterator[Finding]:
    """Yield the readings at the start of an interval that are followed by a wait for the GPU.

    Only functions that time the work of others count: generators, for context managers, and methods such as `start`.
    """
    lines = lines_about(context.known, unsynchronized_timing.RULE)
    clocks, waits = CLOCKS | clock_aliases(context.sites.text), Waits(context.tree)
    for function, nodes in functions_with_nodes(context.tree):
        end = _start_of_others(function, nodes)
        if words_in(function).isdisjoint(clocks) or not end:
            continue
        for steps in blocks_in(function, nodes):
            for index, step in enumerate(steps):
                reading, wait = _reading(step, clocks), _wait_after(steps, index, waits)
                if reading is None or wait is None or not reading.lineno < wait.lineno < end:
                    continue
                if reading.lineno in lines or (index and waits(steps[index - 1])):
                    continue
                found: Finding = Finding.of(
                    unsynchronized_timing.RULE,
                    context.sites.location(context.sites.id_of(reading, function.name)),
                    stream="the GPU",
                )
                related = replace(context.sites.location(context.sites.id_of(wait, function.name)), message=_WORK)
                advice = _HELP.format(line=reading.lineno, wait=wait.lineno)
                yield replace(found, level=Severity.WARNING, message=_MESSAGE, help=advice, related=(related,))


def _start_of_others(function: Method, nodes: Sequence[ast.AST]) -> int:
    """Return the line before which a function starts to time the work of others; 0 if it does not."""
    if function.name in _STARTING:
        return (function.end_lineno or 0) + 1
    return min((node.lineno for node in nodes if isinstance(node, ast.Yield)), default=0)


def _reading(step: ast.stmt, clocks: frozenset[str]) -> ast.Call | None:
    """Return the reading of a clock that an assignment keeps."""
    match step:
        case ast.Assign(value=ast.Call(args=[]) as call) | ast.AnnAssign(value=ast.Call(args=[]) as call):
            return call if last_name(call.func) in clocks else None
        case _:
            return None


def _wait_after(steps: Sequence[ast.stmt], index: int, waits: Waits) -> ast.stmt | None:
    """Return the wait for the GPU that follows a statement, at most after one call or at the start of a `try`."""
    after = list(steps[index + 1 : index + 3])
    if after and isinstance(after[0], ast.Expr) and isinstance(after[0].value, ast.Call) and not waits(after[0]):
        after = after[1:]
    first = after[0].body[0] if after and isinstance(after[0], ast.Try) else after[0] if after else None
    if isinstance(first, ast.If) and not first.orelse and words_of(text(first.test)) & _ASKED:
        first = first.body[0]
    return first if waits(first) else None
