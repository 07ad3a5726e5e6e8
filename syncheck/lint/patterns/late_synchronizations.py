"""Clocks that are read right before the host waits for the GPU, so that the time excludes the work (SYN701).

A wait that is commented out right before the reading shows, too, that work on a GPU is timed.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise

from syncheck.findings import Finding
from syncheck.lint.clock_consequences import weighed_by_clock
from syncheck.lint.files import lines_of
from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.unknown import is_network
from syncheck.lint.locations import lines_about
from syncheck.lint.nodes import (
    Method,
    blocks_in,
    classes_of_methods,
    functions_in,
    methods_of,
    names,
    own_attribute,
    parameters,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.lint.prefilter import CLOCKS, clock_aliases, words_in
from syncheck.rules import unsynchronized_timing
from syncheck.rules.model import Severity
from syncheck.source.expressions import has_line, last_name
from syncheck.source.measured_times import is_host_time, is_measured
from syncheck.source.words import words_of

_OF_HOST = frozenset("parse parser read open tokenize json yaml listdir sleep".split())
"""Words in the names of functions that only use the host."""
_WAITING = re.compile(r"synchronize|(?:^|_)sync(?:$|_)|wait|barrier|bench|^(item|tolist|cpu|numpy|join|result|sleep)$")
_SYNCHRONIZES = re.compile(r"\.synchronize\(")
_DEVICES = frozenset("cuda xpu npu hpu musa accelerator device_util device_utils".split())
_Simple = ast.Assign | ast.AugAssign | ast.Expr | ast.Return
_COMMENT = re.compile(r"^\s*#\s*(?:if\b[^:]*:\s*)?((?:\w+\.)+synchronize\([^)]*\))")
"""A line with nothing but a wait, in a comment."""
_HELP = "move the call of `synchronize` in line {late} before line {line}"
_HELP_COMMENT = "restore `{wait}` in line {line}"
_HELP_AT_END = "add `{call}` before line {line}, as in line {wait}"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return _SYNCHRONIZES.search(source) is not None and any(clock in source for clock in CLOCKS)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the readings at the end of an interval that are followed by a wait for the GPU."""
    lines = lines_about(context.known, unsynchronized_timing.RULE)
    clocks, waits, kinds = (
        CLOCKS | clock_aliases(context.sites.text),
        Waits(context.tree),
        classes_of_methods(context.tree),
    )
    comments = dict(_comments(context.sites.text))
    for function, nodes in functions_with_nodes(context.tree):
        if words_in(function).isdisjoint(clocks):
            continue
        blocks = list(blocks_in(function, nodes))
        found = {
            reading: _HELP.format(late=wait.lineno, line=reading.lineno)
            for steps in blocks
            for reading, wait in _late_waits(steps, nodes, clocks, waits)
        }
        found = dict(_after_comments(nodes, clocks, comments)) | found
        foreign = _foreign_work(function, nodes)
        elsewhere = waits.after_work(kinds.get(function)) if foreign else None
        for reading, wait in _unmatched(blocks, nodes, foreign, clocks, waits, elsewhere) if foreign else ():
            call = waits.call_of(wait, is_near=wait is not elsewhere)
            found.setdefault(reading, _HELP_AT_END.format(call=call, line=reading.lineno, wait=wait.lineno))
        for reading, advice in found.items():
            location = context.sites.location(context.sites.id_of(reading, function.name))
            if reading.lineno not in lines and is_measured(location.frame, function):
                made: Finding = Finding.of(unsynchronized_timing.RULE, location, stream="the GPU")
                finding = weighed_by_clock(made, context.tree)
                if finding is not None:
                    yield replace(finding, level=Severity.WARNING, help=advice)


class Waits:
    """Statements of a file that wait for a whole device, at least on a machine with a GPU.

    Some call a function or a method of the file that does nothing else.
    """

    def __init__(self, tree: ast.Module) -> None:
        bodies = {function.name: [s for s in function.body if not _is_text(s)] for function in functions_in(tree)}
        self._helpers = {name for name, body in bodies.items() if len(body) == 1 and _waits_for_gpu(body[0])}

    def __call__(self, step: ast.stmt | None) -> bool:
        """Return whether a statement is one of these."""
        return step is not None and (_waits_for_gpu(step) or self._calls_helper(step))

    def _calls_helper(self, step: ast.stmt) -> bool:
        call = step.value if isinstance(step, ast.Expr) else None
        return isinstance(call, ast.Call) and last_name(call.func) in self._helpers

    def call_of(self, step: ast.stmt, *, is_near: bool) -> str:
        """Return a line that waits like a statement, for advice; `is_near`: whether its names are known there."""
        if self._calls_helper(step):
            return text(step)
        if not is_near:
            return "torch.cuda.synchronize()"
        return f"if {text(step.test)}: {text(step.body[0])}" if isinstance(step, ast.If) else text(step)

    def after_work(self, kind: ast.ClassDef | None) -> ast.stmt | None:
        """Return a statement that waits right after a method calls in a loop what it is given, if the class has one."""
        for method in methods_of(kind).values() if kind is not None else ():
            for steps in blocks_in(method, walk(method)):
                for step, after in pairwise(steps):
                    if isinstance(step, ast.For | ast.While) and self(after) and _calls_in_loop(method, step):
                        return after
        return None


def _is_text(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)


def _calls_in_loop(function: Method, loop: ast.For | ast.While) -> list[ast.AST]:
    """Return the calls of a function's parameters in a loop."""
    given = {parameter.arg for parameter in parameters(function)}
    return [node for node in walk(loop) if _calls_any(given, node)]


def _late_waits(
    steps: Sequence[ast.stmt], nodes: Sequence[ast.AST], clocks: Set[str], waits: Waits
) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Yield each reading that ends an interval in a block, with the wait for the GPU in the next statement."""
    for index, (step, after) in enumerate(pairwise(steps)):
        reading = _reading(step, clocks)
        if reading is None or not isinstance(step, ast.Assign) or not waits(after):
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


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each line that follows a wait in a comment, with advice to restore it."""
    for number, line in enumerate(lines_of(source), 1):
        wait = _COMMENT.match(line) if "synchronize(" in line else None
        if wait is not None:
            yield number + 1, _HELP_COMMENT.format(wait=wait[1], line=number)


def _after_comments(
    nodes: Sequence[ast.AST], clocks: Set[str], comments: Mapping[int, str]
) -> Iterator[tuple[ast.Call, str]]:
    """Yield each reading that ends an interval in a line after a wait in a comment, with advice.

    The interval may begin in another method: `self.seconds += time.time() - self.start`.
    """
    for step in (node for node in nodes if isinstance(node, _Simple) and node.lineno in comments):
        reading = _reading(step, clocks)
        start = _start_of(step, reading, nodes, clocks) if reading is not None else None
        if reading is None or (start is None and not _ends_interval_of_object(step, reading)):
            continue
        begin = start.lineno if start is not None else 0
        between = [node for node in nodes if begin < getattr(node, "lineno", 0) <= step.lineno and node is not reading]
        if _works(between):
            yield reading, comments[step.lineno]


def _ends_interval_of_object(step: ast.stmt, reading: ast.Call) -> bool:
    """Return whether a statement subtracts an attribute of the object from a reading."""
    differences = (node for node in walk(step) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub))
    return any(node.left is reading and own_attribute(node.right) for node in differences)


def _foreign_work(function: Method, nodes: Sequence[ast.AST]) -> frozenset[int]:
    """Return the lines where a function lets others use the GPU: at a `yield`, or where a loop calls what it is given.

    A network of any origin counts without a loop, too, since these rarely wait.
    """
    found: list[ast.AST] = []
    for loop in (node for node in nodes if isinstance(node, ast.For | ast.While)):
        calls = _calls_in_loop(function, loop)
        found += [loop, *calls] if calls else []
    found += (
        node for node in nodes if isinstance(node, ast.Yield) or (isinstance(node, ast.Call) and is_network(node))
    )
    return frozenset(getattr(node, "lineno", 0) for node in found)


def _calls_any(functions: Set[str], node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions


def _unmatched(
    blocks: Sequence[list[ast.stmt]],
    nodes: Sequence[ast.AST],
    foreign: Set[int],
    clocks: Set[str],
    waits: Waits,
    elsewhere: ast.stmt | None,
) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Yield each reading that ends an interval with work of others without a wait, with a wait that shows the way.

    This wait is at the start of the interval, after the loop around it, or after the same work elsewhere.

    Args:
        blocks: the blocks of a function.
        nodes: its nodes.
        foreign: see `_foreign_work`.
        clocks: the names of clocks.
        waits: the statements that wait for the GPU.
        elsewhere: one that waits after such work in another method of the class; None if there is none.
    """
    before = {step: earlier for steps in blocks for earlier, step in pairwise(steps)}
    after_loops = _waits_after_loops(blocks, waits)
    for step in (step for steps in blocks for step in steps):
        reading = _reading(step, clocks)
        start = _start_of(step, reading, nodes, clocks) if reading is not None and isinstance(step, _Simple) else None
        if reading is None or start is None or any(is_host_time(target) for target in _names_of(step)):
            continue
        first = before.get(start)
        wait = first if waits(first) else after_loops.get(step, elsewhere)
        between = [node for node in nodes if start.lineno < getattr(node, "lineno", 0) < step.lineno]
        is_around = any(start.lineno < line < step.lineno for line in foreign)
        is_unmatched = (
            is_around and not waits(before.get(step)) and _works(between) and not _uses_results(between, foreign)
        )
        if wait is not None and is_unmatched and not _is_read_again(start, step, nodes, clocks):
            yield reading, wait


def _waits_after_loops(blocks: Sequence[list[ast.stmt]], waits: Waits) -> dict[ast.AST, ast.stmt]:
    """Return the statements in loops that are followed by a wait for the GPU, with this wait."""
    return {
        step: after
        for steps in blocks
        for loop, after in pairwise(steps)
        if isinstance(loop, ast.For | ast.While) and waits(after)
        for step in walk(loop)
    }


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
    """Return whether something that may use a GPU is called in an interval, or in a context's block, and none waits."""
    called = [last_name(node.func) for node in between if isinstance(node, ast.Call)]
    is_context = any(isinstance(node, ast.Yield) for node in between)
    is_work = any(not words_of(name) & _OF_HOST for name in called)
    return (is_work or is_context) and not any(_WAITING.search(name) for name in called)


def _is_read_again(start: ast.Assign, wait: ast.stmt, nodes: Sequence[ast.AST], clocks: Set[str]) -> bool:
    """Return whether the same interval is measured again after the wait, so that both times are wanted."""
    began = set(_names_of(start))
    later = [node for node in nodes if getattr(node, "lineno", 0) > wait.lineno]
    readings = [node for node in later if isinstance(node, ast.Call) and last_name(node.func) in clocks]
    return bool(readings) and any(isinstance(node, ast.Name) and node.id in began for node in later)
