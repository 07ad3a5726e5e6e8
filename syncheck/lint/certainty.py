"""Certainty of findings: downgrade those that are only likely, and drop timing findings about irrelevant times."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import pairwise

from syncheck.findings import Finding, Frame
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.unknown import words_of
from syncheck.lint.nodes import branches, function_around
from syncheck.lint.remainders import Remainders
from syncheck.rules.model import Severity
from syncheck.source.expressions import has_line

_FOR_HOSTS_TIME = frozenset({"SYN701", "SYN402", "SYN502"})
"""Rules about work that is still running when the host continues."""
_MAX_NAMES = 4
_SECONDS = frozenset({60, 3600})
"""Divisors that convert a time to minutes or hours: such a time is that of a whole run."""
_HOST_WAITS = frozenset({"item", "tolist", "cpu", "numpy", "synchronize"})
"""Methods that make the host wait for a stream or a device."""
_OF_THE_HOST = frozenset("cpu host launch dispatch enqueue submit issue compile".split())
"""Words in the names of times that measure the host's own work on purpose."""
_SENDING = frozenset("launch launching dispatch enqueue submit schedule scheduling".split())
"""Words in messages that say the same."""
_LOADING = frozenset("data dataset dataloader dataloading load loading loader fetch io prepare prep".split())
_TIMES = frozenset("time times timer timers meter meters sec secs seconds ms elapsed duration stats".split())
"""Words for times: `data_time`, for example, is the time of the data loader."""
_HOST_TIME = re.compile(r"\b(cpu|host)[- ](side )?(time|latency|overhead)\b", re.IGNORECASE)
"""Messages that say so in several words."""
_PREPARING = re.compile(
    r"(?<![a-z])warm(ing)?[-_ ]?up(?![a-z])|(?<![a-z.])(compil(ing|ation)|compile (time|took))(?![a-z])", re.IGNORECASE
)
"""Names and messages of a time that is measured once, before the work that matters."""
_PREPARED = re.compile(r"(?<![a-z])(after|post|without|excluding|done|complete)(?![a-z])", re.IGNORECASE)
"""Messages and names of another time that mention it."""
_INEXACT = frozenset("approx approximate approximately rough roughly estimate estimated".split())
"""Words in the names of times that are not meant to be exact."""

_NONE = Remainders()


def adjusted(
    findings: Iterable[Finding],
    guesses: Mapping[Frame, bool],
    copies: Set[Frame],
    tree: ast.Module,
    *,
    ends: Remainders = _NONE,
    remainders: Remainders = _NONE,
    has_chosen: bool,
) -> Iterator[Finding]:
    """Yield the findings to report, each with its level and its assumptions.

    Args:
        findings: the findings of one path.
        guesses: the locations where unknown code may have left work running -> whether its name suggests so.
        copies: the locations of copies whose source is assumed to be on a GPU.
        tree: the file.
        ends: the intervals that miss one collective; see `RecentWork`.
        remainders: the intervals that miss less than an iteration.
        has_chosen: whether conditions on the path are unknown.
    """
    with_levels = _with_levels(list(findings), guesses, copies, tree, ends, remainders, has_chosen=has_chosen)
    for finding in with_levels:
        taken = (*finding.assumptions, *_assumptions(finding, guesses, copies, has_chosen=has_chosen))
        yield replace(finding, assumptions=taken)


def _assumptions(
    finding: Finding, guesses: Mapping[Frame, bool], copies: Set[Frame], *, has_chosen: bool
) -> Iterator[str]:
    """Yield the assumptions of a finding, in words."""
    frames = dict.fromkeys(location.frame for location in finding.locations)
    for frame in frames:
        if frame in copies:
            yield f"what line {frame.line} copies lies on a GPU"
        elif frame in guesses and finding.rule.code in _FOR_HOSTS_TIME:
            yield f"what line {frame.line} calls leaves work on a GPU"
    if has_chosen:
        yield "conditions that are not known are as on one path through the program"


def _with_levels(
    findings: list[Finding],
    guesses: Mapping[Frame, bool],
    copies: Set[Frame],
    tree: ast.Module,
    ends: Remainders,
    remainders: Remainders,
    *,
    has_chosen: bool,
) -> Iterator[Finding]:
    """Yield the findings to report, each with its level."""
    for finding in findings:
        if finding.rule.code == "SYN407" and any(
            f.location.frame == finding.location.frame and f.rule != finding.rule for f in findings
        ):
            continue  # the other finding names the actual consequence
        if finding.rule.code == "SYN701" and (
            any(location.frame in copies for location in finding.related)
            or not is_measured(finding.location.frame, tree)
            or _continues_in_loop(finding.location.frame, tree, waits=True)
        ):
            continue
        if finding.rule.code == "SYN902" and has_chosen and _is_elsewhere(finding):
            yield replace(finding, level=Severity.WARNING)
            continue
        likely = [guesses[location.frame] for location in finding.related if location.frame in guesses]
        is_sure = not likely or finding.rule.code not in _FOR_HOSTS_TIME
        if remainders.include(finding):
            yield from remainders.reported(finding) if is_sure or all(likely) else ()
            continue
        misses_little = finding.rule.code == "SYN701" and (
            ends.include(finding) or _is_over_a_loop(finding, tree) or _continues_in_loop(finding.location.frame, tree)
        )
        if is_sure and not misses_little:
            yield finding
        elif is_sure or (all(likely) and not misses_little):
            yield replace(finding, level=Severity.WARNING)


def merge_by_clock(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, with only the most severe one for each clock reading."""
    kept: list[Finding] = []
    clocks: dict[Frame, int] = {}
    for finding in findings:
        if finding.rule.code != "SYN701":
            kept.append(finding)
        elif finding.location.frame not in clocks:
            clocks[finding.location.frame] = len(kept)
            kept.append(finding)
        elif finding.level.rank < kept[clocks[finding.location.frame]].level.rank:
            kept[clocks[finding.location.frame]] = finding
    return kept


def as_seen_in_source(finding: Finding) -> Finding:
    """Return a session's finding as the linter reports it: an ineffective `with`, at the start of its block."""
    if finding.rule.code != "SYN501" or not finding.related:
        return finding
    block, *others = finding.related
    inside = replace(finding.location, message="this is work on another device")
    return replace(finding, location=replace(block, message=""), related=(inside, *others))


def is_cross_function_timing(finding: Finding) -> bool:
    """Return whether a clock reading is reported for side-stream work of another function, such as a prefetcher."""
    if finding.rule.code != "SYN701" or not finding.related or "default stream" in finding.message:
        return False
    return finding.related[0].frame.function != finding.location.frame.function


def _is_elsewhere(finding: Finding) -> bool:
    """Return whether another function captures. It may never call this one in practice, since that raises an error."""
    return any(location.frame.function != finding.location.frame.function for location in finding.related)


def is_measured(frame: Frame, tree: ast.Module) -> bool:
    """Return whether the time between two readings is used. A time that is only compared is a timeout."""
    function = function_around(tree, frame.line)
    parents = {child: node for node in (function, *own_nodes(function)) for child in ast.iter_child_nodes(node)}
    reading = next((node for node in parents if _is_call_at(node, frame)), None)
    return reading is None or _is_used(reading, function, parents, _MAX_NAMES)


def _is_over_a_loop(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the clock was started before a loop whose iterations wait for the device.

    Work that is still running then belongs to the last iteration, which is a small part of the total time. If the clock
    is read in every iteration, the work that one reading misses is part of the next.
    """
    read = finding.location.frame
    running, start = ([read, read] + [location.frame for location in finding.related])[-2:]
    function = function_around(tree, read.line)
    if function is not function_around(tree, start.line):  # started once, and read by the loop or after it
        return _is_in_loop_that_waits(running.line, tree)
    if running.function != read.function and _is_in_loop_that_waits(running.line, tree):
        return True
    loops = [node for node in own_nodes(function) if isinstance(node, ast.For | ast.While)]
    between = [loop for loop in loops if start.line < loop.lineno < read.line and _waits_for_device(loop)]
    return any(has_line(loop, running.line) or running.function != read.function for loop in between)


def _is_in_loop_that_waits(line: int, tree: ast.Module) -> bool:
    """Return whether a line is in a loop, in its own function, whose iterations wait for the device."""
    loops = (node for node in own_nodes(function_around(tree, line)) if isinstance(node, ast.For | ast.While))
    return any(has_line(loop, line) and _waits_for_device(loop, reads=True) for loop in loops)


def _continues_in_loop(frame: Frame, tree: ast.Module, *, waits: bool = False) -> bool:
    """Return whether the next interval begins in a loop where this one ends: what one misses, the next includes.

    Args:
        frame: the location of the reading.
        tree: the file.
        waits: consider only loops whose iterations wait for the device.
    """
    function = function_around(tree, frame.line)
    for loop in (node for node in own_nodes(function) if isinstance(node, ast.For | ast.While)):
        if any(isinstance(node, ast.For | ast.While) for node in own_nodes(loop)):
            continue  # an outer loop: its time covers many batches
        if waits and not _waits_for_device(loop):
            continue
        for block in (node for node in (loop, *own_nodes(loop)) if isinstance(getattr(node, "body", None), list)):
            steps = branches(block)
            if any(has_line(step, frame.line) and _restarts(step, after) for step, after in pairwise(steps)):
                return True
    return False


def _restarts(step: ast.stmt, after: ast.stmt) -> bool:
    """Return whether `after` reassigns, from a call, a variable that `step` uses in a simple statement."""
    if isinstance(step, ast.For | ast.While | ast.If | ast.With | ast.Try) or not isinstance(after, ast.Assign):
        return False
    names = {target.id for target in after.targets if isinstance(target, ast.Name)}
    used = {node.id for node in ast.walk(step) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return bool(names & used) and isinstance(after.value, ast.Call)


def _waits_for_device(loop: ast.For | ast.While, *, reads: bool = False) -> bool:
    """Return whether the iterations of a loop wait for the device; `reads`: also by converting a value to a number."""
    calls = [node.func for node in own_nodes(loop) if isinstance(node, ast.Call)]
    return any(isinstance(function, ast.Attribute) and function.attr in _HOST_WAITS for function in calls) or (
        reads and any(isinstance(function, ast.Name) and function.id == "float" for function in calls)
    )


def _is_call_at(node: ast.AST, frame: Frame) -> bool:
    return (
        isinstance(node, ast.Call)
        and (node.lineno, node.end_lineno) == (frame.line, frame.end_line)
        and (node.col_offset + 1 == frame.column)
    )


def _is_used(node: ast.AST, function: ast.AST, parents: dict[ast.AST, ast.AST], depth: int) -> bool:
    """Return whether a value is used other than in a comparison or a sleep."""
    while isinstance(node, ast.expr | ast.keyword | ast.FormattedValue):
        if isinstance(node, ast.Compare) or (isinstance(node, ast.Call) and _name(node).endswith("sleep")):
            return False
        if _excludes_gpu_work(node):
            return False
        node = parents.get(node, function)
    targets = node.targets if isinstance(node, ast.Assign) else []
    kept = [*targets, node.target] if isinstance(node, ast.AugAssign) else targets
    if any(is_host_time(ast.unparse(target)) for target in kept):
        return False
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    if not names or len(names) < len(targets) or not depth:
        return not isinstance(node, ast.If | ast.While | ast.Assert)
    loads = [other for other in parents if isinstance(other, ast.Name) and other.id in names]
    later = _until_rebound([load for load in loads if isinstance(load.ctx, ast.Load)], loads, node)
    if any(_is_of_long_run(parents.get(load)) for load in later):
        return False
    return any(_is_used(load, function, parents, depth - 1) for load in later)


def _until_rebound(loads: list[ast.Name], uses: list[ast.Name], node: ast.AST) -> list[ast.Name]:
    """Return the loads of a variable before it is bound again; all its loads if there are none in between."""
    line = getattr(node, "lineno", 0)
    end = min((use.lineno for use in uses if not isinstance(use.ctx, ast.Load) and use.lineno > line), default=None)
    near = [load for load in loads if line < load.lineno and (end is None or load.lineno < end)]
    return near or loads


def _excludes_gpu_work(node: ast.AST) -> bool:
    """Return whether a time is in minutes or hours, or goes to a meter or message about the host's own work."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return bool(words_of(str(node.left.value)) & (_SENDING | _INEXACT))
    if isinstance(node, ast.BinOp):
        return _is_of_long_run(node) or (isinstance(node.right, ast.Name) and bool(words_of(node.right.id) & _SENDING))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and is_host_time(ast.unparse(node.func.value))
    ):
        return True
    parts = node.values if isinstance(node, ast.JoinedStr) else node.args if isinstance(node, ast.Call) else []
    texts = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    return any(
        words_of(text) & (_SENDING | _INEXACT)
        or _HOST_TIME.search(text)
        or _is_preparation(text)
        or (text.isidentifier() and is_host_time(text))
        for text in texts
    )


def _is_of_long_run(node: ast.AST | None) -> bool:
    """Return whether an expression converts a time to minutes or hours."""
    divisor = node.right.value if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) else None
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv) and divisor in _SECONDS


def is_host_time(name: str) -> bool:
    """Return whether the name of a time says that it excludes GPU work, is not exact, or is that of a preparation."""
    words = words_of(name)
    is_exact = not words & (_OF_THE_HOST | _INEXACT) and not _is_preparation(name)
    return not is_exact or bool(words & _LOADING and words & _TIMES)


def _is_preparation(text: str) -> bool:
    """Return whether a name or a message is that of a warm-up or a compilation."""
    return _PREPARING.search(text) is not None and _PREPARED.search(text) is None


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)
