"""Certainty of findings: downgrade those that are only likely, and drop timing findings about irrelevant times."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import pairwise

from syncheck.findings import Finding, Frame
from syncheck.lint.consequences import weighed
from syncheck.lint.interp.functions import nodes_around, own_nodes
from syncheck.lint.interp.guards import is_periodic
from syncheck.lint.nodes import HOST_READS, branches, function_around, statements, text, walk
from syncheck.lint.remainders import Missed
from syncheck.source.expressions import arguments_of, has_line
from syncheck.source.measured_times import is_measured
from syncheck.source.words import words_of

_FOR_HOSTS_TIME = frozenset({"SYN701", "SYN402", "SYN502"})
"""Rules about work that is still running when the host continues."""
_HOST_WAITS = HOST_READS | {"synchronize"}
"""Methods that make the host wait for a stream or a device."""
_METERS = frozenset("meter meters logger tracker".split())
"""Words in the names of objects whose `update` reads a loss on the host."""
_LOSSES = frozenset({"loss", "losses"})

_FIRST_USE = "SYN104"
"""The rule about new memory that another stream may still use."""
_USED_BEFORE = "the new memory was in use before"
_NONE = Missed()
_OF_NO_CALLER: dict[tuple[str, Frame], str] = {}


def adjusted(
    findings: Iterable[Finding],
    guesses: Mapping[Frame, bool],
    copies: Set[Frame],
    tree: ast.Module,
    callers: Mapping[tuple[str, Frame], str] = _OF_NO_CALLER,
    *,
    missed: Missed = _NONE,
    has_chosen: bool,
) -> Iterator[Finding]:
    """Yield the findings to report, each with its level and its assumptions.

    Args:
        findings: the findings of one path.
        guesses: the locations where unknown code may have left work running -> whether its name suggests so.
        copies: the locations of copies whose source is assumed to be on a GPU.
        tree: the file.
        callers: (beginning of rule codes, location) -> what findings of these rules about it assume of callers. These
            findings are warnings.
        missed: what intervals between clock readings miss.
        has_chosen: whether conditions on the path are unknown.
    """
    with_levels = _with_levels(list(findings), guesses, copies, tree, missed, has_chosen=has_chosen)
    for each in with_levels:
        finding = each if missed.little.are_reported else weighed(each, tree)
        if finding is None:
            continue
        taken = (*finding.assumptions, *_assumptions(finding, guesses, copies, has_chosen=has_chosen))
        yield _weaker(replace(finding, assumptions=taken), callers)


def _weaker(finding: Finding, callers: Mapping[tuple[str, Frame], str]) -> Finding:
    """Return a finding as a warning that states what it assumes of callers, or of memory, if it assumes anything."""
    frames = {location.frame for location in finding.locations}
    code = finding.rule.code
    texts = [text for (codes, frame), text in callers.items() if code.startswith(codes) and frame in frames]
    if code == _FIRST_USE:  # the allocator may just as well return memory that was never used
        texts.append(_USED_BEFORE)
    if not texts:
        return finding
    message = f"{finding.message}, if {' and '.join(dict.fromkeys(texts))}"
    return replace(finding.as_warning(), message=message, assumptions=(*finding.assumptions, *texts))


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
    missed: Missed,
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
            or not is_measured(finding.location.frame, function_around(tree, finding.location.frame.line))
            or _continues_in_loop(finding.location.frame, tree, waits=True)
        ):
            continue
        if _depends_on_caller(finding, tree, has_chosen=has_chosen):
            yield finding.as_warning()
            continue
        likely = [guesses[location.frame] for location in finding.related if location.frame in guesses]
        likely = likely or [True] * _is_operator_on_guess(finding, guesses, tree)
        is_sure = not likely or finding.rule.code not in _FOR_HOSTS_TIME
        if missed.little.include(finding):
            yield from missed.little.reported(finding) if is_sure or all(likely) else ()
            continue
        misses_little = finding.rule.code == "SYN701" and (
            missed.collective.include(finding)
            or _is_over_a_loop(finding, tree)
            or _continues_in_loop(finding.location.frame, tree)
            or _hands_over(finding, tree)
        )
        if is_sure and not misses_little and not missed.part.include(finding):
            yield finding
        elif is_sure or (all(likely) and not misses_little):
            yield finding.as_warning()


def _is_operator_on_guess(finding: Finding, guesses: Mapping[Frame, bool], tree: ast.Module) -> bool:
    """Return whether only an operator such as `*` is certainly running, on the result of unknown code that may wait."""
    if finding.rule.code != "SYN701":
        return False
    running = finding.related[0].frame if finding.related else finding.location.frame
    operators = (node for node in nodes_around(tree, running.line) if isinstance(node, ast.BinOp))
    place, guessed = (running.line, running.column), {(frame.line, frame.column) for frame in guesses}
    inside = (walk(node) for node in operators if _place(node) == place)
    return any(isinstance(node, ast.Call) and _place(node) in guessed for nodes in inside for node in nodes)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset + 1


def _depends_on_caller(finding: Finding, tree: ast.Module, *, has_chosen: bool) -> bool:
    """Return whether a caller may still wait for what a finding reports, directly or by resuming a generator."""
    if finding.rule.code == "SYN603":
        frame = finding.location.frame
        nodes = nodes_around(tree, frame.line)
        dropped = (node for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        is_kept = not any(node.lineno == frame.line and node.col_offset + 1 == frame.column for node in dropped)
        return is_kept and any(isinstance(n, ast.Yield | ast.YieldFrom) and n.lineno > frame.line for n in nodes)
    return finding.rule.code == "SYN902" and has_chosen and _is_elsewhere(finding)


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


def is_cross_function_timing(finding: Finding, tree: ast.Module) -> bool:
    """Return whether a clock reading is reported for side-stream work of another function, such as a prefetcher.

    The work of a prefetcher in another file is located at the loop that gets its batches.
    """
    if finding.rule.code != "SYN701" or not finding.related or "default stream" in finding.message:
        return False
    launch = finding.related[0].frame
    loops = (node for node in nodes_around(tree, launch.line) if isinstance(node, ast.For))
    return launch.function != finding.location.frame.function or any(loop.lineno == launch.line for loop in loops)


def _is_elsewhere(finding: Finding) -> bool:
    """Return whether another function captures. It may never call this one in practice, since that raises an error."""
    return any(location.frame.function != finding.location.frame.function for location in finding.related)


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
    between = [loop for loop in loops if start.line < loop.lineno < read.line and _waits_always(loop)]
    return any(has_line(loop, running.line) or running.function != read.function for loop in between)


def _is_in_loop_that_waits(line: int, tree: ast.Module) -> bool:
    """Return whether a line is in a loop, in its own function, whose iterations wait for the device."""
    loops = (node for node in nodes_around(tree, line) if isinstance(node, ast.For | ast.While))
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
        inside = statements(loop, lambda node: not isinstance(node, ast.If))
        if any(isinstance(node, ast.For | ast.While) for node in inside[1:]):
            continue  # an outer loop: its time covers many batches
        if waits and not _waits_for_device(loop):
            continue
        for block in (node for node in (loop, *own_nodes(loop)) if isinstance(getattr(node, "body", None), list)):
            steps = branches(block)
            if any(has_line(step, frame.line) and _restarts(step, after) for step, after in pairwise(steps)):
                return True
    return False


def _hands_over(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the reading at the end of one interval begins the next one in a loop: `t1 = time(); t0 = t1`.

    An interval that begins with another reading of the same iteration is not continued.
    """
    frame, starts = finding.location.frame, {location.frame.line for location in finding.related[1:]}
    nodes = nodes_around(tree, frame.line)
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    read = {text(target) for node in assigned if node.lineno == frame.line for target in node.targets}
    handed = [node for node in assigned if text(node.value) in read]
    loops = [node for node in nodes if isinstance(node, ast.For | ast.While) and has_line(node, frame.line)]
    continued = (loop for loop in loops if not any(has_line(loop, line) for line in starts - {frame.line}))
    return any(has_line(loop, node.lineno) for loop in continued for node in handed)


def _restarts(step: ast.stmt, after: ast.stmt) -> bool:
    """Return whether `after` reassigns, from a call, a variable that `step` uses in a simple statement."""
    if isinstance(step, ast.For | ast.While | ast.If | ast.With | ast.Try) or not isinstance(after, ast.Assign):
        return False
    names = {target.id for target in after.targets if isinstance(target, ast.Name)}
    used = {node.id for node in ast.walk(step) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return bool(names & used) and isinstance(after.value, ast.Call)


def _waits_for_device(loop: ast.For | ast.While, *, reads: bool = False) -> bool:
    """Return whether iterations of a loop wait for the device; `reads`: also by converting a value to a number."""
    return _wait_for_device(own_nodes(loop), reads=reads)


def _waits_always(loop: ast.For | ast.While) -> bool:
    """Return whether each iteration of a loop waits for the device, and not only every n-th."""
    periodic = (node for node in own_nodes(loop) if isinstance(node, ast.If) and is_periodic(node))
    rare = {node for branch in periodic for node in walk(branch)}
    return _wait_for_device((node for node in own_nodes(loop) if node not in rare), reads=False)


def _wait_for_device(nodes: Iterable[ast.AST], *, reads: bool) -> bool:
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    functions = [call.func for call in calls]
    return (
        any(isinstance(function, ast.Attribute) and function.attr in _HOST_WAITS for function in functions)
        or any(map(_updates_meter, calls))
        or (reads and any(isinstance(function, ast.Name) and function.id == "float" for function in functions))
    )


def _updates_meter(call: ast.Call) -> bool:
    """Return whether a call gives a meter a loss, which it reads: `meters.update(loss=loss)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "update":
        return False
    given = [text(value) for value in arguments_of(call)]
    return bool(words_of(text(call.func.value)) & _METERS) and any(words_of(value) & _LOSSES for value in given)
