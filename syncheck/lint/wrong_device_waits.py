"""Waits of a stream for the current stream of another device than its own (SYN105).

In `with torch.cuda.device(self.dst)`, `torch.cuda.current_stream()` is that of `self.dst`. A stream of `self.src` that
copies from there needs the current stream of `self.src`.
"""

import ast
from collections.abc import Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    classes_of_methods,
    is_current_stream,
    methods_of,
    parameters,
    text,
    walk,
)
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import last_name

_FLAW = "`{stream}` is on `{own}`, but `{awaited}` is that of `{other}` here"
_HELP = "wait for `torch.cuda.current_stream({own})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "current_stream(" in source and "wait_stream(" in source and "Stream(" in source


def findings(tree: ast.Module, sites: SourceSites, known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the waits.

    Args:
        tree: the file.
        sites: the call sites of the file.
        known: the findings on paths through the file. One in the same line is more specific.
    """
    lines = main_lines_of(known)
    for function, nodes in functions_with_nodes(tree):
        kind = classes_of_methods(tree).get(function)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        devices = _devices_of_streams([*nodes, *(walk(kind) if kind is not None else ())])
        for wait, other in _waits(nodes):
            stream = wait.func.value if isinstance(wait.func, ast.Attribute) else wait
            own = devices.get(text(stream), "")
            if not own or not other or own == other or wait.lineno in lines or _waits_elsewhere(stream, wait, calls):
                continue
            if _is_given(own, function, kind) and _is_given(other, function, kind):
                flaw = _FLAW.format(stream=text(stream), own=own, awaited=text(wait.args[0]), other=other)
                advice = _HELP.format(own=own)
                yield sites.warning(unordered_side_stream.RULE, wait, function.name, advice, flaw=flaw)


def _waits(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Call, str]]:
    """Yield the waits of streams for the current stream of a device, with the device as written."""
    inside = {node: device for block in nodes if (device := _entered_device(block)) for node in walk(block)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="wait_stream"), args=[ast.Call() as current]) if is_current_stream(
                current
            ):
                given = [*current.args, *(word.value for word in current.keywords)]
                yield node, text(given[0]) if given else inside.get(node, "")
            case _:
                pass


def _entered_device(block: ast.AST) -> str:
    """Return the device that a block makes current, as written; "" if it makes none current."""
    for item in block.items if isinstance(block, ast.With) else ():
        match item.context_expr:
            case ast.Call(func=ast.Attribute(attr="device") as func, args=[device]) if "cuda" in text(func):
                return text(device)
            case _:
                pass
    return ""


def _waits_elsewhere(stream: ast.expr, wait: ast.Call, calls: Sequence[ast.Call]) -> bool:
    """Return whether a function makes a stream wait for something else, too."""
    owners = [
        call.func.value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call is not wait and call.func.attr in {"wait_stream", "wait_event"}
    ]
    return text(stream) in map(text, owners)


def _devices_of_streams(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Return the device of each variable or attribute that is only set to new streams of one device, as written."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                made = value.body if isinstance(value, ast.IfExp) else value
                if isinstance(made, ast.Call) and last_name(made.func) == "Stream":
                    found.setdefault(text(target), set()).add(text(made.args[0]) if made.args else "")
            case _:
                pass
    return {name: devices.pop() for name, devices in found.items() if len(devices) == 1}


def _is_given(device: str, function: Method, kind: ast.ClassDef | None) -> bool:
    """Return whether a device, as written, is a parameter of a function, or set by the constructor of its class."""
    begin = methods_of(kind).get("__init__") if kind is not None else None
    assigned = [node for node in (walk(begin) if begin is not None else ()) if isinstance(node, ast.Assign)]
    kept = {text(target) for node in assigned for target in node.targets}
    return device in {argument.arg for argument in parameters(function)} | kept
