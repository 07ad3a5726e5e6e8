"""Clocks that are read right before the host waits for the GPU, so that the time excludes the work (SYN701)."""

import ast
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise

from syncheck.findings import Finding
from syncheck.lint.certainty import is_host_time, is_measured
from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import is_network
from syncheck.lint.nodes import Method, blocks_in, names, parameters, walk
from syncheck.lint.prefilter import CLOCKS, clock_aliases
from syncheck.rules import unsynchronized_timing
from syncheck.rules.model import Severity
from syncheck.source.expressions import has_line, last_name

_WAITING = re.compile(r"synchronize|wait|barrier|bench|^(item|tolist|cpu|numpy|join|result|sleep)$")
_SYNCHRONIZES = re.compile(r"\.synchronize\(")
_DEVICES = frozenset("cuda xpu npu hpu musa accelerator device_util device_utils".split())
_Simple = ast.Assign | ast.AugAssign | ast.Expr | ast.Return
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
    clocks = CLOCKS | clock_aliases(sites.text)
    for function, nodes in functions_with_nodes(tree):
        blocks = list(blocks_in(function, nodes))
        found = {
            reading: _HELP.format(late=wait.lineno, line=reading.lineno)
            for steps in blocks
            for reading, wait in _late_waits(steps, nodes, clocks)
        }
        foreign = _foreign_work(function, nodes)
        for reading, start in _unmatched(blocks, nodes, foreign, clocks) if foreign else ():
            found.setdefault(reading, _HELP_AT_END.format(line=reading.lineno, start=start.lineno))
        for reading, advice in found.items():
            location = sites.location(sites.id_of(reading, function.name))
            if reading.lineno not in lines and is_measured(location.frame, tree):
                finding: Finding = Finding.of(unsynchronized_timing.RULE, location, stream="the GPU")
                yield replace(finding, level=Severity.WARNING, help=advice)


def _late_waits(
    steps: Sequence[ast.stmt], nodes: Sequence[ast.AST], clocks: Set[str]
) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Yield each reading that ends an interval in a block, with the wait for the GPU in the next statement."""
    for index, (step, after) in enumerate(pairwise(steps)):
        reading = _reading(step, clocks)
        if reading is None or not isinstance(step, ast.Assign) or not _waits_for_gpu(after):
            continue
        if index + 2 < len(steps) and _reading(steps[index + 2], clocks) is not None:
            continue  # the wait precedes the next interval
        start = _start_of(step, reading, nodes, clocks)
        between = [
            node for node in nodes if start is not None and start.lineno < getattr(node, "lineno", 0) < step.lineno
        ]
        if start is None or any(is_host_time(target) for target in _names_of(step)) or not _works(between):
            continue
        if not _is_read_again(start, after, nodes, clocks):
            yield reading, after


def _foreign_work(function: Method, nodes: Sequence[ast.AST]) -> frozenset[int]:
    """Return the lines where a function lets others use the GPU: at a `yield`, or where a loop calls what it is given.

    A network of any origin counts without a loop, too, since these rarely wait.
    """
    given = {parameter.arg for parameter in parameters(function)}
    found: list[ast.stmt | ast.expr] = []
    for loop in (node for node in nodes if isinstance(node, ast.For | ast.While)):
        calls = [node for node in walk(loop) if isinstance(node, ast.Call) and _calls_any(given, node)]
        found += [loop, *calls] if calls else []
    found += (
        node for node in nodes if isinstance(node, ast.Yield) or (isinstance(node, ast.Call) and is_network(node))
    )
    return frozenset(node.lineno for node in found)


def _calls_any(functions: Set[str], node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions


def _unmatched(
    blocks: Sequence[list[ast.stmt]], nodes: Sequence[ast.AST], foreign: Set[int], clocks: Set[str]
) -> Iterator[tuple[ast.Call, ast.Assign]]:
    """Yield each reading that ends an interval with work of others if only its start waits for the GPU, with the start.

    Args:
        blocks: the blocks of a function.
        nodes: its nodes.
        foreign: see `_foreign_work`.
        clocks: the names of clocks.
    """
    before = {step: earlier for steps in blocks for earlier, step in pairwise(steps)}
    for step in (step for steps in blocks for step in steps):
        reading = _reading(step, clocks)
        start = _start_of(step, reading, nodes, clocks) if reading is not None and isinstance(step, _Simple) else None
        if reading is None or start is None or any(is_host_time(target) for target in _names_of(step)):
            continue
        first, last = before.get(start), before.get(step)
        between = [node for node in nodes if start.lineno < getattr(node, "lineno", 0) < step.lineno]
        is_around = any(start.lineno < line < step.lineno for line in foreign)
        is_start_only = first is not None and _waits_for_gpu(first) and not (last is not None and _waits_for_gpu(last))
        is_unmatched = is_around and is_start_only and _works(between) and not _uses_results(between, foreign)
        if is_unmatched and not _is_read_again(start, step, nodes, clocks):
            yield reading, start


def _uses_results(between: Sequence[ast.AST], foreign: Set[int]) -> bool:
    """Return whether an interval reads what others computed in it, other than for a backward pass: the host may wait.

    Args:
        between: the nodes of the interval.
        foreign: see `_foreign_work`.
    """
    made = (node for node in between if isinstance(node, ast.Assign) and any(has_line(node, line) for line in foreign))
    bound = {name for node in made for target in node.targets for name in names(target)}
    backward = {node.value for node in between if isinstance(node, ast.Attribute) and node.attr == "backward"}
    read = (node for node in between if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return any(node.id in bound and node not in backward for node in read)


def _names_of(step: ast.stmt) -> list[str]:
    """Return the variables that an assignment binds."""
    targets = step.targets if isinstance(step, ast.Assign) else [step.target] if isinstance(step, ast.AugAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _reading(step: ast.stmt, clocks: Set[str]) -> ast.Call | None:
    """Return the reading of a clock in a simple statement."""
    if not isinstance(step, _Simple) or step.value is None:
        return None
    calls = (node for node in ast.walk(step.value) if isinstance(node, ast.Call))
    return next((call for call in calls if last_name(call.func) in clocks and not call.args), None)


def _waits_for_gpu(step: ast.stmt) -> bool:
    """Return whether a statement waits for a whole device, at least on a machine with a GPU."""
    if isinstance(step, ast.If) and on_gpu(step.test, strictly=False) and not step.orelse:
        return _waits_for_gpu(step.body[0])
    call = step.value if isinstance(step, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "synchronize":
        return False
    return last_name(call.func.value) in _DEVICES


def _start_of(step: _Simple, reading: ast.Call, nodes: Sequence[ast.AST], clocks: Set[str]) -> ast.Assign | None:
    """Return the assignment that began the interval which a reading ends: `start` of `clock() - start`."""
    used = set(names(step.value or step) - names(reading))
    if not used:  # `end = clock()`: the interval is computed later
        ends = set(_names_of(step))
        later = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)]
        used = {name for node in later if names(node.left) & ends for name in names(node.right)}
    starts = (node for node in nodes if isinstance(node, ast.Assign) and node.lineno < step.lineno)
    found = [node for node in starts if _reading(node, clocks) is not None and set(_names_of(node)) & used]
    return max(found, key=lambda node: node.lineno, default=None)


def _works(between: Sequence[ast.AST]) -> bool:
    """Return whether something is called in an interval, also in the block of a context, and nothing waits there."""
    called = [last_name(node.func) for node in between if isinstance(node, ast.Call)]
    is_context = any(isinstance(node, ast.Yield) for node in between)
    return (bool(called) or is_context) and not any(_WAITING.search(name) for name in called)


def _is_read_again(start: ast.Assign, wait: ast.stmt, nodes: Sequence[ast.AST], clocks: Set[str]) -> bool:
    """Return whether the same interval is measured again after the wait, so that both times are wanted."""
    began = set(_names_of(start))
    later = [node for node in nodes if getattr(node, "lineno", 0) > wait.lineno]
    readings = [node for node in later if isinstance(node, ast.Call) and last_name(node.func) in clocks]
    return bool(readings) and any(isinstance(node, ast.Name) and node.id in began for node in later)
