"""Lower or drop findings that are correct but have no consequence."""

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from syncheck.findings import Finding
from syncheck.lint.clock_consequences import COLLECTIVES, weighed_by_clock
from syncheck.lint.file_calls import argument_of
from syncheck.lint.interp.functions import nodes_around, own_nodes
from syncheck.lint.nodes import (
    HOST_READS,
    VIEWS,
    Method,
    changed_in_place,
    function_around,
    is_on_stream,
    names,
    nodes_in,
    parameters,
    stored_names,
    text,
    walk,
)
from syncheck.rules.model import Severity
from syncheck.source.expressions import has_line, last_name
from syncheck.source.words import words_of

_WARMING = frozenset({"warm", "warmup", "warmups"})
_LASTING = frozenset("step backward append extend put add insert update save print setattr".split())
"""Functions and methods with effects that outlast a warm-up."""
_SENDING = frozenset({"isend", "send"})
_STARTING = frozenset("async asynchronous begin issue launch start".split())
"""Words in the names of functions whose caller waits for what they start."""
_EXISTING = frozenset("get pop popleft contiguous to cuda setdefault getattr next".split())
"""Functions that may return what exists already."""


def weighed(finding: Finding, tree: ast.Module) -> Finding | None:
    """Return a finding, at a lower level if it may have no consequence, or None if it has none."""
    code = finding.rule.code
    if code == "SYN701":
        return weighed_by_clock(finding, tree)
    if code == "SYN901" and _has_run(finding, tree):
        return None
    if code == "SYN101" and _is_warm_up(finding, tree):
        return replace(finding, level=Severity.ADVICE)
    checks = _OF_LITTLE_CONSEQUENCE.get(code, ())
    return finding.as_warning() if any(check(finding, tree) for check in checks) else finding


def _is_warm_up(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the reader runs in a warm-up whose results are not used.

    That is a loop named so, or a block on a stream before the capture of a graph. It has no other effects.
    """
    line = finding.location.frame.line
    nodes = nodes_around(tree, line)
    around = [node for node in nodes if isinstance(node, ast.For | ast.With) and has_line(node, line)]
    return any(
        (_says_warm_up(step) or _precedes_capture(step, nodes)) and not _has_effects(step) and _is_dropped(step, nodes)
        for step in around
    )


def _says_warm_up(step: ast.For | ast.With) -> bool:
    if not isinstance(step, ast.For):
        return False
    attributes = {node.attr for node in walk(step.iter) if isinstance(node, ast.Attribute)}
    counts = attributes or names(step.iter) - {"range"}
    return bool(counts) and all(words_of(name) & _WARMING for name in counts)


def _is_dropped_result(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the reader is an operator whose result the statement drops: `torch.mm(a, b)`."""
    line = finding.location.frame.line
    steps = (node for node in nodes_around(tree, line) if isinstance(node, ast.Expr) and node.lineno == line)
    for step in steps:
        match step.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"))):
                return not _has_effects(step) and not last_name(step.value.func).endswith("_")
            case ast.BinOp():
                return True
            case _:
                pass
    return False


def _sleeps_before(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the later access follows a sleep of its stream in a block, in which other streams finish."""
    line, *others = (location.frame.line for location in finding.locations)
    blocks = (node for node in nodes_around(tree, line) if isinstance(node, ast.With) and has_line(node, line))
    return any(
        is_on_stream(block)
        and any(_is_sleep(node) and node.lineno < line for node in own_nodes(block))
        and not any(has_line(block, other) for other in others)
        for block in blocks
    )


def _is_sleep(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and "sleep" in words_of(last_name(node.func))


def _is_synchronized(_: Finding, tree: ast.Module) -> bool:
    """Return whether a file waits for whole devices, so that it may do so for a collective, too."""
    calls = (node for node in nodes_in(tree) if isinstance(node, ast.Call))
    return any(text(call.func).endswith("cuda.synchronize") for call in calls)


def _has_run(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the code before a capture calls what the block of the capture calls, maybe on another path."""
    line = finding.location.frame.line
    nodes = nodes_around(tree, line)
    blocks = [node for node in nodes if isinstance(node, ast.With) and has_line(node, line) and _captures(node)]
    captured = {text(node.func) for block in blocks for node in own_nodes(block) if isinstance(node, ast.Call)}
    before = {text(node.func) for node in nodes if isinstance(node, ast.Call) and node.lineno < line}
    return any(name.rpartition(".")[2] not in _EXISTING for name in captured & before)


def _precedes_capture(step: ast.For | ast.With, nodes: list[ast.AST]) -> bool:
    if not isinstance(step, ast.With) or not is_on_stream(step):
        return False
    later = [node for node in nodes if getattr(node, "lineno", 0) > (step.end_lineno or 0)]
    return any(map(_captures, later))


def _captures(node: ast.AST) -> bool:
    match node:
        case ast.With(items=items):
            contexts = (item.context_expr for item in items)
            return any(isinstance(one, ast.Call) and last_name(one.func) == "graph" for one in contexts)
        case ast.Call(func=function):
            return last_name(function) == "capture_begin"
        case _:
            return False


def _has_effects(step: ast.AST) -> bool:
    """Return whether a step changes anything but variables, or returns or passes on what it computes."""
    return any(map(_has_effect, own_nodes(step)))


def _has_effect(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            return True
        case ast.AugAssign() | ast.Return() | ast.Yield() | ast.YieldFrom():
            return True
        case ast.Call(func=function, keywords=keywords):
            is_lasting = last_name(function) in _LASTING | HOST_READS or changed_in_place(node) is not None
            return is_lasting or any(keyword.arg == "out" for keyword in keywords)
        case _:
            return False


def _is_dropped(step: ast.For | ast.With, nodes: list[ast.AST]) -> bool:
    """Return whether the code after a step assigns each variable that the step assigns before it uses it."""
    made = stored_names(own_nodes(step))
    end = step.end_lineno or step.lineno
    later = [node for node in nodes if isinstance(node, ast.Name) and node.id in made and node.lineno > end]
    first = {name: min(node.lineno for node in later if node.id == name) for name in {node.id for node in later}}
    return not any(node.lineno == first[node.id] and isinstance(node.ctx, ast.Load) for node in later)


def _is_changed_by_collective(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the buffer of a collective is changed by another one of the same group.

    NCCL runs those of one communicator one after the other, although its documentation does not promise that.

    Source:
        NCCL, src/enqueue.cc, `ncclLaunchPrepare`: "userStream[0] waits on deviceStream". On two H200s (NCCL 2.28.9),
        a collective waited for an earlier one of its group on another stream, and not for one of another group.
    """
    lines = [location.frame.line for location in finding.locations]
    nodes = nodes_around(tree, lines[0])
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.lineno in lines]
    groups = {_group_of(call) for call in calls if last_name(call.func) in COLLECTIVES | _SENDING}
    changes = [call for call in calls if call.lineno == lines[0]]
    is_broadcast = any(last_name(call.func) == "broadcast" for call in changes)  # whose source only reads
    return any(last_name(call.func) in COLLECTIVES for call in changes) and (is_broadcast or len(groups) == 1)


def _group_of(call: ast.Call) -> str:
    group = argument_of(call, "group", None)
    return "" if group is None else text(group)


def _is_local_send(finding: Finding, tree: ast.Module) -> bool:
    """Return whether the tensor sent was made for this send only.

    Source:
        torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `pointToPoint`: the allocator does not reuse the memory before
        the send is complete (`recordStream`).
    """
    line = finding.location.frame.line
    nodes = nodes_around(tree, line)
    for node in nodes:
        if isinstance(node, ast.Call) and node.lineno == line:
            sent = argument_of(node, "tensor", 0)
            if last_name(node.func) in _SENDING and isinstance(sent, ast.Name):
                return _is_made_for(sent, nodes)
    return False


def _is_made_for(sent: ast.Name, nodes: list[ast.AST]) -> bool:
    """Return whether a variable holds the result of a call, and is used only before and where it is sent."""
    used = [node for node in nodes if isinstance(node, ast.Name) and node.id == sent.id]
    makers = [node for node in nodes if isinstance(node, ast.Assign) and any(target in used for target in node.targets)]
    is_made = bool(makers) and all(map(_is_new, makers))
    return is_made and all(node.lineno <= sent.lineno for node in used)


def _is_for_caller(finding: Finding, tree: ast.Module) -> bool:
    """Return whether a function is named after starting something, and exchanges a tensor of its caller."""
    line = finding.location.frame.line
    function = function_around(tree, line)
    if not isinstance(function, Method) or not words_of(function.name) & _STARTING:
        return False
    given = {argument.arg for argument in parameters(function)}
    calls = [node for node in own_nodes(function) if isinstance(node, ast.Call) and node.lineno == line]
    exchanged = [argument_of(call, "tensor", 0) for call in calls]
    return any(isinstance(tensor, ast.Name) and tensor.id in given for tensor in exchanged)


def _is_new(maker: ast.Assign) -> bool:
    """Return whether an assignment binds what a call returns, unless that may exist already: a view, an item."""
    return isinstance(maker.value, ast.Call) and last_name(maker.value.func) not in VIEWS | _EXISTING


_OF_LITTLE_CONSEQUENCE: dict[str, tuple[Callable[[Finding, ast.Module], bool], ...]] = {
    "SYN101": (_is_dropped_result, _sleeps_before),
    "SYN102": (_sleeps_before,),
    "SYN103": (_sleeps_before,),
    "SYN602": (_is_changed_by_collective,),
    "SYN603": (_is_local_send, _is_for_caller, _is_synchronized),
}
"""Code of a rule -> the checks for findings that may have no consequence."""
