"""Lower or drop findings about clocks (SYN701) that are correct but have no consequence."""

import ast
import re
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.file_calls import argument_of
from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.interp.functions import nodes_around, own_nodes
from syncheck.lint.interp.guards import is_periodic
from syncheck.lint.nodes import HOST_READS, WAITS, bound_names, function_around, names, nodes_in, text, walk
from syncheck.lint.prefilter import CLOCKS
from syncheck.source.expressions import has_line, last_name
from syncheck.source.words import words_of

COLLECTIVES = frozenset(
    """all_reduce broadcast reduce all_gather all_gather_into_tensor reduce_scatter reduce_scatter_tensor
    all_to_all_single scatter""".split()
)
_EXCHANGES = COLLECTIVES | {"send", "recv", "isend", "irecv"}
_NAMES_SIDE_STREAM = re.compile(r"stream (?:`|made at )")
_ACCELERATORS = re.compile(r"cuda|gpu|nccl|accelerator|xpu|npu|rocm|local_rank", re.IGNORECASE)
_ACCELERATED = frozenset("cuda gpu xpu npu offload".split())
"""Words in the names of functions that use a GPU."""
_STATISTICS = frozenset({"stats", "statistics"})
_LONGEST = 40
_XLA = re.compile(r"\bxm\.|\bxla_device\b|\btorch_xla\b")
"""Code for devices that `torch.cuda` does not drive."""
_Loop = ast.For | ast.While


def weighed_by_clock(finding: Finding, tree: ast.Module) -> Finding | None:
    """Return a finding about a clock, at a lower level if it may have no consequence, or None if it has none."""
    checks = (
        _runs_ahead,
        _is_of_host,
        _is_elsewhere,
        _is_over_many_iterations,
        _is_in_loop_header,
        _is_after_statistics,
    )
    if any(check(finding, tree) for check in checks):
        return None
    doubts = (_may_end_with_read, _is_given_back, _is_one_of_many)
    return finding.as_warning() if any(doubt(finding, tree) for doubt in doubts) else finding


def _is_elsewhere(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the clock is read in a branch or function for machines without a GPU, or one for XLA devices."""
    line = finding.location.frame.line
    function = function_around(tree, line)
    for node in own_nodes(function):
        if isinstance(node, ast.If) and has_line(node, line):
            is_for_gpu = on_gpu(node.test, strictly=False)
            inside = [step for branch in (node.body, node.orelse) for step in branch if has_line(step, line)]
            if is_for_gpu is not None and inside and (inside[0] in node.body) != is_for_gpu:
                return True
    spoken = words_of(getattr(function, "name", ""))
    is_of_cpu = "cpu" in spoken and not spoken & _ACCELERATED
    return is_of_cpu or (function is not tree and _XLA.search(text(function)) is not None)


def _is_over_many_iterations(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the clock is read in one of many iterations, for all since its first reading: a progress message.

    Such a reading misses at most what the last iteration leaves running.
    """
    frames = [location.frame for location in finding.locations]
    line, starts = frames[0].line, [frame.line for frame in frames[2:]]
    for loop in (node for node in nodes_around(tree, line) if isinstance(node, _Loop) and has_line(node, line)):
        branches = [node for node in own_nodes(loop) if isinstance(node, ast.If)]
        branch = next((node for node in branches if has_line(node, line) and is_periodic(node)), None)
        is_inside = has_line(loop, frames[1].line) or frames[1].function != frames[0].function if starts else False
        if branch is not None and is_inside:
            rare = [node for node in branches if node is not branch and _is_rare(node)]
            return all(
                not has_line(loop, start)
                or (has_line(branch, start) and start > line)
                or any(has_line(node, start) and not has_line(node, line) for node in rare)
                for start in starts
            )
    return False


def _is_in_loop_header(finding: Finding, tree: ast.Module) -> bool:
    """Return whether a clock is read by what a loop iterates over, in another file: what it shows is progress."""
    frame = finding.location.frame
    loops = (node for node in nodes_around(tree, frame.line) if isinstance(node, ast.For))
    headers = (loop.iter for loop in loops if loop.iter.lineno <= frame.line <= (loop.iter.end_lineno or 0))
    return any(not any(_is_clock(node) for node in walk(header)) for header in headers)


def _is_after_statistics(finding: Finding, tree: ast.Module) -> bool:
    """Return whether what is running returns statistics besides its result, which it has read on the host.

    They are in a tuple or a dictionary: `loss, stats = model(x)`, `out = model(x)` and then `loss, stats = out`, or
    `out["stats"]`.

    Source:
        espnet, espnet2/torch_utils/device_funcs.py, `force_gatherable`: models end with numbers that become tensors.
    """
    line = finding.related[0].frame.line if finding.related else 0
    nodes = nodes_around(tree, line)
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    made = [node for node in assigned if isinstance(node.value, ast.Call) and has_line(node, line)]
    results = {name for node in made for name in bound_names(node)}
    unpacked = [node for node in assigned if isinstance(node.value, ast.Name) and node.value.id in results]
    items = (node for node in nodes if isinstance(node, ast.Subscript) and text(node.value) in results)
    keys = (node.slice.value for node in items if isinstance(node.slice, ast.Constant))
    return any(map(_names_statistics, (*made, *unpacked))) or any(key in _STATISTICS for key in keys)


def _names_statistics(assigned: ast.Assign) -> bool:
    tuples = (target.elts for target in assigned.targets if isinstance(target, ast.Tuple))
    return any(words_of(last_name(part)) & _STATISTICS for parts in tuples for part in parts)


def _is_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in CLOCKS


def _is_one_of_many(finding: Finding, tree: ast.Module) -> bool:
    """Return whether a loop measures each iteration by itself, and the interval contains no loop of its own.

    The next interval may then include what this one misses, so that their sum is right.
    """
    frames = [location.frame for location in finding.locations]
    line, starts = frames[0].line, [frame.line for frame in frames[2:]]
    if not starts or len({frame.function for frame in (frames[0], *frames[2:])}) > 1:
        return False
    loops = [node for node in nodes_around(tree, line) if isinstance(node, _Loop)]
    if any(min(starts) < loop.lineno < line for loop in loops):
        return False
    return any(all(has_line(loop, each) for each in (line, *starts)) for loop in loops)


def _is_rare(branch: ast.If) -> bool:
    """Return whether a branch runs once, or in some iterations: `if start is None`, `if step == warmup`."""
    compared = [node for node in ast.walk(branch.test) if isinstance(node, ast.Compare)]
    return any(isinstance(node.ops[0], ast.Is | ast.Eq) for node in compared)


def _is_given_back(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the caller decides whether to wait for a collective of the interval: `async_op=async_op`."""
    lines = [location.frame.line for location in finding.locations]
    calls = (node for node in nodes_around(tree, lines[0]) if isinstance(node, ast.Call))
    timed = (call for call in calls if last_name(call.func) in _EXCHANGES and min(lines) <= call.lineno < lines[0])
    return any(isinstance(argument_of(call, "async_op", None), ast.Name) for call in timed)


def _runs_ahead(finding: Finding, tree: ast.Module) -> bool:
    """Return whether only a side stream still works, for the next iteration of the loop in which the clock is read."""
    if not _NAMES_SIDE_STREAM.search(finding.message) or not finding.related:
        return False
    running, *starts = (location.frame for location in finding.related)
    read = finding.location.frame
    for loop in (node for node in nodes_around(tree, read.line) if isinstance(node, _Loop)):
        is_inside = has_line(loop, running.line) and running.line > loop.lineno
        is_progress = has_line(loop, read.line) and not any(has_line(loop, start.line) for start in starts)
        is_header = read.line == loop.lineno and any(_waits(node) for node in own_nodes(loop))
        if is_inside and running.function == read.function and (is_progress or is_header):
            return True
    return False


def _waits(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in HOST_READS | WAITS


def _is_of_host(finding: Finding, tree: ast.Module) -> bool:
    """Return whether a collective runs on the host, which waits for it: the file names no GPU, or only gloo's group.

    Source:
        torch.distributed, "Synchronous and asynchronous collective operations": for CPU collectives, the result is
        there when the function returns.
    """
    lines = {location.frame.line for location in finding.related}
    calls = [node for node in nodes_in(tree) if isinstance(node, ast.Call)]
    running = [call for call in calls if call.lineno in lines and last_name(call.func) in _EXCHANGES]
    if running and not any(_ACCELERATORS.search(word) for word in _words(tree)):
        return True
    is_async = any(keyword.arg == "async_op" for call in running for keyword in call.keywords)
    if not running or (is_async and not any(last_name(call.func) == "wait" for call in calls)):
        return False
    texts = {node.value for node in nodes_in(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return "gloo" in texts and not any("nccl" in value for value in texts)


def _words(tree: ast.Module) -> Iterator[str]:
    """Yield the names, members and texts in a file, without long texts such as docstrings."""
    for node in nodes_in(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word):
                yield word
            case ast.Constant(value=str(word)) if len(word) <= _LONGEST:
                yield word
            case _:
                pass


def _may_end_with_read(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the host reads a result in one iteration of a counted loop only, which may be the last one."""
    frames = [location.frame for location in finding.locations]
    is_of_one_function = len({frame.function for frame in frames}) == 1
    nodes = nodes_around(tree, frames[0].line) if is_of_one_function else nodes_in(tree)
    running = frames[1].line if is_of_one_function and len(frames) > 1 else 0
    loops = (node for node in nodes if isinstance(node, ast.For) and (not running or has_line(node, running)))
    return any(_is_numbered_read(node, loop) for loop in loops for node in own_nodes(loop))


def _is_numbered_read(node: ast.AST, loop: ast.For) -> bool:
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[last])):
            if name not in names(loop.target) or text(last) == "0":
                return False
            calls = (inner for step in node.body for inner in own_nodes(step) if isinstance(inner, ast.Call))
            return any(last_name(call.func) in HOST_READS for call in calls)
        case _:
            return False
