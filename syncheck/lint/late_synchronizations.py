"""Clocks that are read right before the host waits for the GPU, so that the time excludes the work (SYN701)."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from syncheck.findings import Finding
from syncheck.lint.certainty import is_host_time
from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.nodes import names, walk
from syncheck.lint.prefilter import CLOCKS
from syncheck.rules import unsynchronized_timing
from syncheck.rules.model import Severity
from syncheck.source.expressions import bodies, last_name

_WAITING = re.compile(r"synchronize|wait|barrier|^(item|tolist|cpu|numpy|join|result|sleep)$")
_SYNCHRONIZES = re.compile(r"\.synchronize\(")
_DEVICES = frozenset("cuda xpu npu hpu musa accelerator device_util device_utils".split())
_HELP = "move the call of `synchronize` in line {late} before line {line}"
_HELP_AT_END = "call `torch.cuda.synchronize()` before line {line}, as before line {start}"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return _SYNCHRONIZES.search(source) is not None and any(clock in source for clock in CLOCKS)


def findings(tree: ast.Module, sites: SourceSites, known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the readings at the end of an interval that are followed by a wait for the GPU.

    Args:
        tree: the file.
        sites: the call sites of the file.
        known: the findings on paths through the file. One about the same reading is more specific.
    """
    lines = {finding.location.frame.line for finding in known if finding.rule == unsynchronized_timing.RULE}
    for function in (node for node in walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        nodes = list(own_nodes(function))
        blocks = [steps for node in (function, *nodes) if isinstance(node, ast.stmt) for steps in bodies(node)]
        found = {
            reading: _HELP.format(late=wait.lineno, line=reading.lineno)
            for steps in blocks
            for reading, wait in _late_waits(steps, nodes)
        }
        for reading, start in _unmatched(blocks, nodes) if any(isinstance(node, ast.Yield) for node in nodes) else ():
            found.setdefault(reading, _HELP_AT_END.format(line=reading.lineno, start=start.lineno))
        for reading, advice in found.items():
            if reading.lineno not in lines:
                location = sites.location(sites.id_of(reading, function.name))
                finding: Finding = Finding.of(unsynchronized_timing.RULE, location, stream="the GPU")
                yield replace(finding, level=Severity.WARNING, help=advice)


def _late_waits(steps: Sequence[ast.stmt], nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Yield each reading that ends an interval in a block, with the wait for the GPU in the next statement."""
    for index, (step, after) in enumerate(pairwise(steps)):
        reading = _reading(step)
        if reading is None or not isinstance(step, ast.Assign) or not _waits_for_gpu(after):
            continue
        if index + 2 < len(steps) and _reading(steps[index + 2]) is not None:
            continue  # the wait precedes the next interval
        start = _start_of(step, reading, nodes)
        between = [
            node for node in nodes if start is not None and start.lineno < getattr(node, "lineno", 0) < step.lineno
        ]
        if start is None or any(is_host_time(target) for target in _names_of(step)) or not _works(between):
            continue
        if not _is_read_again(start, after, nodes):
            yield reading, after


def _unmatched(blocks: Sequence[list[ast.stmt]], nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Call, ast.Assign]]:
    """Yield each reading that ends an interval around a `yield` if only its start waits for the GPU, with the start."""
    before = {step: earlier for steps in blocks for earlier, step in pairwise(steps)}
    yielded = [node.lineno for node in nodes if isinstance(node, ast.Yield)]
    for step in (step for steps in blocks for step in steps if isinstance(step, ast.Assign)):
        reading = _reading(step)
        start = _start_of(step, reading, nodes) if reading is not None else None
        if reading is None or start is None or any(is_host_time(target) for target in _names_of(step)):
            continue
        first, last = before.get(start), before.get(step)
        between = [node for node in nodes if start.lineno < getattr(node, "lineno", 0) < step.lineno]
        is_around = any(start.lineno < line < step.lineno for line in yielded)
        is_start_only = first is not None and _waits_for_gpu(first) and not (last is not None and _waits_for_gpu(last))
        if is_around and is_start_only and _works(between) and not _is_read_again(start, step, nodes):
            yield reading, start


def _names_of(step: ast.Assign) -> list[str]:
    """Return the variables that an assignment binds."""
    return [target.id for target in step.targets if isinstance(target, ast.Name)]


def _reading(step: ast.stmt) -> ast.Call | None:
    """Return the reading of a clock in a simple statement."""
    if not isinstance(step, ast.Assign):
        return None
    calls = (node for node in ast.walk(step.value) if isinstance(node, ast.Call))
    return next((call for call in calls if last_name(call.func) in CLOCKS and not call.args), None)


def _waits_for_gpu(step: ast.stmt) -> bool:
    """Return whether a statement waits for a whole device, at least on a machine with a GPU."""
    if isinstance(step, ast.If) and on_gpu(step.test, strictly=False) and not step.orelse:
        return _waits_for_gpu(step.body[0])
    call = step.value if isinstance(step, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "synchronize":
        return False
    return last_name(call.func.value) in _DEVICES


def _start_of(step: ast.Assign, reading: ast.Call, nodes: Sequence[ast.AST]) -> ast.Assign | None:
    """Return the assignment that began the interval which a reading ends: `start` of `clock() - start`."""
    used = set(names(step.value) - names(reading))
    if not used:  # `end = clock()`: the interval is computed later
        ends = set(_names_of(step))
        later = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)]
        used = {name for node in later if names(node.left) & ends for name in names(node.right)}
    starts = (node for node in nodes if isinstance(node, ast.Assign) and node.lineno < step.lineno)
    found = [node for node in starts if _reading(node) is not None and set(_names_of(node)) & used]
    return max(found, key=lambda node: node.lineno, default=None)


def _works(between: Sequence[ast.AST]) -> bool:
    """Return whether something is called in an interval, also in the block of a context, and nothing waits there."""
    called = [last_name(node.func) for node in between if isinstance(node, ast.Call)]
    is_context = any(isinstance(node, ast.Yield) for node in between)
    return (bool(called) or is_context) and not any(_WAITING.search(name) for name in called)


def _is_read_again(start: ast.Assign, wait: ast.stmt, nodes: Sequence[ast.AST]) -> bool:
    """Return whether the same interval is measured again after the wait, so that both times are wanted."""
    began = set(_names_of(start))
    later = [node for node in nodes if getattr(node, "lineno", 0) > wait.lineno]
    readings = [node for node in later if isinstance(node, ast.Call) and last_name(node.func) in CLOCKS]
    return bool(readings) and any(isinstance(node, ast.Name) and node.id in began for node in later)
