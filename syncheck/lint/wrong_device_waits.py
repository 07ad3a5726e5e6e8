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
from syncheck.lint.nodes import Method, classes_of_methods, is_current_stream, own_attribute, text, walk
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import last_name

_FLAW = "`{stream}` is on `{own}`, but `torch.cuda.current_stream()` is that of `{other}` here"
_HELP = "wait for `torch.cuda.current_stream({own})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "cuda.device(" in source and "wait_stream(" in source and "Stream(" in source


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
        for block in (node for node in nodes if isinstance(node, ast.With)):
            other = _entered_device(block)
            waits = [node for node in walk(block) if _is_wait(node) and node in calls] if other else []
            for wait in waits:
                stream = wait.func.value if isinstance(wait.func, ast.Attribute) else wait
                own = _device_of(own_attribute(stream), kind)
                if not own or own == other or wait.lineno in lines or _waits_elsewhere(stream, wait, calls):
                    continue
                if _is_kept_by(kind, own) and _is_kept_by(kind, other):
                    flaw = _FLAW.format(stream=text(stream), own=own, other=other)
                    advice = _HELP.format(own=own)
                    yield sites.warning(unordered_side_stream.RULE, wait, function.name, advice, flaw=flaw)


def _entered_device(block: ast.With) -> str:
    """Return the device that a block makes current, as written; "" if it makes none current."""
    for item in block.items:
        match item.context_expr:
            case ast.Call(func=ast.Attribute(attr="device") as func, args=[device]) if "cuda" in text(func):
                return text(device)
            case _:
                pass
    return ""


def _is_wait(node: ast.AST) -> bool:
    """Return whether a call makes a stream wait for the current stream of the current device."""
    match node:
        case ast.Call(func=ast.Attribute(attr="wait_stream"), args=[ast.Call(args=[], keywords=[]) as awaited]):
            return is_current_stream(awaited)
        case _:
            return False


def _waits_elsewhere(stream: ast.expr, wait: ast.Call, calls: Sequence[ast.Call]) -> bool:
    """Return whether a function makes a stream wait for something else, too."""
    owners = [
        call.func.value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call is not wait and call.func.attr in {"wait_stream", "wait_event"}
    ]
    return text(stream) in map(text, owners)


def _device_of(name: str, kind: ast.ClassDef | None) -> str:
    """Return the device, as written, of the stream that a class keeps in an attribute; "" if it is not known."""
    found = set[str]()
    for node in walk(kind) if kind is not None and name else ():
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                made = value.body if isinstance(value, ast.IfExp) else value
                if own_attribute(target) == name and isinstance(made, ast.Call) and last_name(made.func) == "Stream":
                    found.add(text(made.args[0]) if made.args else "")
            case _:
                pass
    return found.pop() if len(found) == 1 else ""


def _is_kept_by(kind: ast.ClassDef | None, device: str) -> bool:
    """Return whether the constructor of a class sets a device, as written, to a parameter of its own."""
    methods = kind.body if kind is not None else []
    begin = next((node for node in methods if isinstance(node, Method) and node.name == "__init__"), None)
    targets = [
        target
        for node in (walk(begin) if begin is not None else ())
        if isinstance(node, ast.Assign)
        for target in node.targets
    ]
    return device in map(text, targets)
