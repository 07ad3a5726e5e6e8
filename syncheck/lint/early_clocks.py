"""Intervals that begin while earlier work is running, although the host waits before they end (SYN701)."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.hb.ids import SiteId
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.nodes import function_around, text
from syncheck.rules import unsynchronized_timing
from syncheck.rules.model import Severity
from syncheck.source.expressions import has_line
from syncheck.source.gpu_checks import may_lack_gpu
from syncheck.source.measured_times import is_measured
from syncheck.source.words import words_of

_MESSAGE = "this interval includes earlier work: the GPU is still running what line {line} launches"
_HELP = "add `{check}torch.cuda.synchronize()` before line {line}"
_RUNNING = "this may still be running"
_OF_DATA = frozenset("loader dataloader data dataset batches epoch epochs progress".split())
"""Words in what loops over all data iterate over."""
_SMALL = 0.1
"""Share of the measured iterations up to which iterations of a warm-up matter little."""
_OUTSIDE_LOOPS = 10
"""Number of iterations that a warm-up outside loops counts as, since the first run may take longer."""


def findings(
    early: Mapping[SiteId, SiteId], guesses: Mapping[SiteId, bool], sites: SourceSites, tree: ast.Module
) -> Iterator[Finding]:
    """Yield the first readings of such intervals.

    Work of an earlier iteration of a loop does not count: each interval then misses as much as it includes.

    Args:
        early: the first readings -> the launch of the earlier work; see `EarlyReadings`.
        guesses: the launches of unknown code -> whether its name suggests that it leaves work running.
        sites: the call sites of the file.
        tree: the file.
    """
    for reading, launch in early.items():
        clock, work = sites.location(reading), sites.location(launch)
        function = function_around(tree, clock.frame.line)
        is_before = work.frame.line < clock.frame.line and function_around(tree, work.frame.line) is function
        is_before = is_before and not _is_small_part(work.frame.line, clock.frame.line, function)
        if is_before and guesses.get(launch, True) and is_measured(clock.frame, function):
            found: Finding = Finding.of(unsynchronized_timing.RULE, clock, stream="the GPU")
            line, related = clock.frame.line, (replace(work, message=_RUNNING),)
            check = "if torch.cuda.is_available(): " if may_lack_gpu(sites.lines_of(reading)[0].scopes) else ""
            message, advice = _MESSAGE.format(line=work.frame.line), _HELP.format(check=check, line=line)
            yield replace(found, level=Severity.WARNING, message=message, help=advice, related=related)


def _is_small_part(work: int, clock: int, function: ast.AST) -> bool:
    """Return whether the work before a reading is a small part of what the clock measures.

    So it is if only few iterations run before it, compared with those after it, if the reading is in a loop, whose
    first iteration alone includes the work, or if a loop over all data follows.
    """
    loops = [node for node in own_nodes(function) if isinstance(node, ast.For)]
    if any(has_line(loop, clock) and not has_line(loop, work) for loop in loops):
        return True
    if any(loop.lineno > clock and words_of(text(loop.iter)) & _OF_DATA for loop in loops):
        return True
    before = (_count(loop, function) for loop in loops if has_line(loop, work) and not has_line(loop, clock))
    after = (_count(loop, function) for loop in loops if loop.lineno > clock)
    return 0 < max(before, default=_OUTSIDE_LOOPS) <= _SMALL * max(after, default=0)


def _count(loop: ast.For, function: ast.AST) -> int:
    """Return the number of iterations of a loop; 0 if it is unknown."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            return count
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)]):
            return _constant(name, function)
        case _:
            return 0


def _constant(name: str, function: ast.AST) -> int:
    """Return the number that a variable of a function is bound to, once; 0 if it is unknown."""
    assignments = (node for node in own_nodes(function) if isinstance(node, ast.Assign))
    match [node.value for node in assignments if text(node.targets[0]) == name]:
        case [ast.Constant(value=int(number))]:
            return number
        case _:
            return 0
