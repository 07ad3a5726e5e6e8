"""Findings whose statement is right, but that may have no consequence where they are: these are weaker or left out."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.nodes import HOST_READS, WAITS, changed_in_place, function_around, is_on_stream, nodes_in, text
from syncheck.rules.model import Severity
from syncheck.source.expressions import has_line, last_name
from syncheck.source.words import words_of

_WARMING = frozenset({"warm", "warmup", "warmups"})
_LASTING = frozenset({"step", "backward"})
"""Methods with effects that outlast a warm-up."""
_SENDING = frozenset({"isend", "send"})
_COLLECTIVES = frozenset(
    """all_reduce broadcast reduce all_gather all_gather_into_tensor reduce_scatter reduce_scatter_tensor
    all_to_all_single scatter""".split()
)
_NAMES_SIDE_STREAM = re.compile(r"stream (?:`|made at )")
_CAPTURING = frozenset({"graph", "capture_begin"})
_Loop = ast.For | ast.While


def weighed(finding: Finding, tree: ast.Module) -> Finding | None:
    """Return a finding with its level, which is lower if it may have no consequence; None if it has none."""
    match finding.rule.code:
        case "SYN101" if _is_warm_up(finding, tree):
            return replace(finding, level=Severity.ADVICE)
        case "SYN602" if _is_changed_by_collective(finding, tree):
            return finding.as_warning()
        case "SYN603" if _is_local_send(finding, tree):
            return finding.as_warning()
        case "SYN701" if _runs_ahead(finding, tree) or _is_of_gloo(finding, tree):
            return None
        case "SYN701" if _may_end_with_read(finding, tree):
            return finding.as_warning()
        case _:
            return finding


def _nodes_around(finding: Finding, tree: ast.Module) -> list[ast.AST]:
    """Return the nodes of the function that a finding is in, or of the file outside of functions."""
    return own_nodes(function_around(tree, finding.location.frame.line))


def _is_warm_up(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the reader belongs to a warm-up whose results are dropped.

    That is a loop that says so, or a block on a stream that precedes the capture of a graph. It has no other effects.
    """
    line, nodes = finding.location.frame.line, _nodes_around(finding, tree)
    around = [node for node in nodes if isinstance(node, ast.For | ast.With) and has_line(node, line)]
    return any(
        (_says_warm_up(step) or _precedes_capture(step, nodes)) and not _has_effects(step) and _is_dropped(step, nodes)
        for step in around
    )


def _says_warm_up(step: ast.For | ast.With) -> bool:
    return isinstance(step, ast.For) and bool(words_of(text(step.iter)) & _WARMING)


def _precedes_capture(step: ast.For | ast.With, nodes: list[ast.AST]) -> bool:
    if not isinstance(step, ast.With) or not is_on_stream(step):
        return False
    calls = (node for node in nodes if isinstance(node, ast.Call) and node.lineno > (step.end_lineno or 0))
    return any(last_name(call.func) in _CAPTURING for call in calls)


def _has_effects(step: ast.AST) -> bool:
    """Return whether a step changes parameters, attributes, items of containers, or tensors in place."""
    for node in own_nodes(step):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            return True
        if changed_in_place(node) is not None or (isinstance(node, ast.Call) and last_name(node.func) in _LASTING):
            return True
    return False


def _is_dropped(step: ast.For | ast.With, nodes: list[ast.AST]) -> bool:
    """Return whether the code after a step assigns each variable that the step assigns before it uses it."""
    made = {node.id for node in own_nodes(step) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    end = step.end_lineno or step.lineno
    later = [node for node in nodes if isinstance(node, ast.Name) and node.id in made and node.lineno > end]
    first = {name: min(node.lineno for node in later if node.id == name) for name in {node.id for node in later}}
    return not any(node.lineno == first[node.id] and isinstance(node.ctx, ast.Load) for node in later)


def _is_changed_by_collective(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the buffer of a collective is changed by another one.

    NCCL runs those of one communicator one after the other, although it does not promise that. And the source of a
    broadcast only reads it.

    Source:
        NCCL, src/enqueue.cc, `ncclLaunchPrepare`: "userStream[0] waits on deviceStream".
    """
    line = finding.location.frame.line
    calls = (node for node in _nodes_around(finding, tree) if isinstance(node, ast.Call))
    return any(call.lineno == line and last_name(call.func) in _COLLECTIVES for call in calls)


def _is_local_send(finding: Finding, tree: ast.Module) -> bool:
    """Return whether a message is a new tensor that only this statement uses after it was made.

    Source:
        torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: the work holds its tensors until it is complete.
    """
    nodes = _nodes_around(finding, tree)
    for node in nodes:
        if isinstance(node, ast.Call) and node.lineno == finding.location.frame.line:
            given = [*node.args, *(word.value for word in node.keywords if word.arg == "tensor")]
            if last_name(node.func) in _SENDING and given and isinstance(given[0], ast.Name):
                return _is_made_for(given[0], nodes)
    return False


def _is_made_for(sent: ast.Name, nodes: list[ast.AST]) -> bool:
    """Return whether a variable holds the result of a call, and is used only before and where it is sent."""
    used = [node for node in nodes if isinstance(node, ast.Name) and node.id == sent.id]
    makers = [node for node in nodes if isinstance(node, ast.Assign) and any(target in used for target in node.targets)]
    is_made = bool(makers) and all(isinstance(maker.value, ast.Call) for maker in makers)
    return is_made and all(node.lineno <= sent.lineno for node in used)


def _runs_ahead(finding: Finding, tree: ast.Module) -> bool:
    """Return whether only a side stream still works, for the next iteration of the loop in which the clock is read."""
    if not _NAMES_SIDE_STREAM.search(finding.message) or not finding.related:
        return False
    running, *starts = (location.frame for location in finding.related)
    read = finding.location.frame
    for loop in (node for node in _nodes_around(finding, tree) if isinstance(node, _Loop)):
        is_inside = has_line(loop, running.line) and running.line > loop.lineno
        is_progress = has_line(loop, read.line) and not any(has_line(loop, start.line) for start in starts)
        is_header = read.line == loop.lineno and any(_waits(node) for node in own_nodes(loop))
        if is_inside and running.function == read.function and (is_progress or is_header):
            return True
    return False


def _waits(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in HOST_READS | WAITS


def _is_of_gloo(finding: Finding, tree: ast.Module) -> bool:
    """Return whether a collective runs in a group of gloo, the only backend that the file names: the host waits for it.

    Source:
        torch.distributed, "Synchronous and asynchronous collective operations": for CPU collectives, the result is
        there when the function returns.
    """
    lines = {location.frame.line for location in finding.related}
    calls = [node for node in nodes_in(tree) if isinstance(node, ast.Call)]
    if not any(call.lineno in lines and last_name(call.func) in _COLLECTIVES for call in calls):
        return False
    texts = {node.value for node in nodes_in(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return "gloo" in texts and not any("nccl" in value for value in texts)


def _may_end_with_read(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the host reads a result in one iteration of a counted loop only, which may be the last one."""
    is_of_one_function = len({location.frame.function for location in finding.locations}) == 1
    nodes = _nodes_around(finding, tree) if is_of_one_function else nodes_in(tree)
    loops = (node for node in nodes if isinstance(node, ast.For))
    return any(_is_numbered_read(node, loop) for loop in loops for node in own_nodes(loop))


def _is_numbered_read(node: ast.AST, loop: ast.For) -> bool:
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()])) if name in _targets(loop):
            calls = (inner for step in node.body for inner in own_nodes(step) if isinstance(inner, ast.Call))
            return any(last_name(call.func) in HOST_READS for call in calls)
        case _:
            return False


def _targets(loop: ast.For) -> Iterator[str]:
    return (node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name))
