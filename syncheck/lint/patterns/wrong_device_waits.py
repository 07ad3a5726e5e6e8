"""Waits of a stream for the current stream of another device than its own (SYN105).

In `with torch.cuda.device(self.dst)`, `torch.cuda.current_stream()` is that of `self.dst`. A stream of `self.src` that
copies from there needs the current stream of `self.src`.
"""

import ast
from collections.abc import Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    blocks_on,
    classes_of_methods,
    is_current_stream,
    is_on_stream,
    methods_of,
    own_attribute,
    parameters,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import arguments_of, last_name

_ALLOCATING = ("empty", "new_empty", "zeros")
_FLAW = "`{stream}`, which copies from `{own}`, waits only for the current stream of `{other}`"
_HELP = "wait for `torch.cuda.current_stream({own})`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "current_stream(" in source and "wait_stream(" in source and "Stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the waits."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        waits = list(_waits(nodes))
        if not waits:
            continue
        kind = classes_of_methods(context.tree).get(function)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        own_nodes = [node for node in (walk(kind) if kind is not None else ()) if _sets_attribute(node)]
        devices = _devices_of_streams([*nodes, *own_nodes])
        kept = _kept_parameters(kind)
        for wait, other in waits:
            stream = wait.func.value if isinstance(wait.func, ast.Attribute) else wait
            own = devices.get(text(stream), "")
            own = kept.get(own, own) if text(stream).startswith("self.") else own
            if not own or not other or own == other or wait.lineno in lines or _waits_elsewhere(stream, wait, calls):
                continue
            is_given = _is_given(own, function, kind) and _is_given(other, function, kind)
            if is_given and _copies_to_new_memory(text(stream), nodes):
                flaw = _FLAW.format(stream=text(stream), own=own, other=other)
                yield context.sites.warning(
                    unordered_side_stream.RULE, wait, function.name, _HELP.format(own=own), flaw=flaw
                )


def _sets_attribute(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(own_attribute(target) for target in targets)


def _copies_to_new_memory(stream: str, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a block on a stream copies what it has not computed to memory that the function has allocated.

    Such a copy need not wait for readers of its target, only for the device that computes its source.
    """
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    made = {text(target): node.value for node in assigned for target in node.targets}
    inside = [node for block in blocks_on(stream, nodes) for node in walk(block)]
    computed = {text(target) for node in inside if isinstance(node, ast.Assign) for target in node.targets}
    for node in inside:
        match node:
            case ast.Call(func=ast.Attribute(value=target, attr="copy_"), args=[ast.Name(id=source), *_]):
                value = made.get(text(target))
                is_new = isinstance(value, ast.Call) and last_name(value.func).startswith(_ALLOCATING)
                if is_new and source not in computed:
                    return True
            case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name(id=source), attr="to" | "cuda"))):
                if source not in computed:
                    return True
            case _:
                pass
    return False


def _waits(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Call, str]]:
    """Yield the waits of streams for the current stream of a device, with the device as written."""
    inside = {node: device for block in nodes if (device := _entered_device(block)) for node in walk(block)}
    on_stream = {node for block in nodes if isinstance(block, ast.With) and is_on_stream(block) for node in walk(block)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="wait_stream"), args=[ast.Call() as current]) if is_current_stream(
                current
            ):
                given = arguments_of(current)
                here = "" if node in on_stream else inside.get(node, "")  # a stream's block makes its device current
                yield node, text(given[0]) if given else here
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
    """Return the device of each variable or attribute that is set to new streams of one device, as written."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                made = value.body if isinstance(value, ast.IfExp) else value
                if isinstance(made, ast.Call) and last_name(made.func) == "Stream":
                    given = [*made.args, *(word.value for word in made.keywords if word.arg == "device")]
                    found.setdefault(text(target), set()).add(text(given[0]) if given else "")
                elif text(target) in found and not (isinstance(made, ast.Constant) and made.value is None):
                    found[text(target)].add("")
            case _:
                pass
    return {name: devices.pop() for name, devices in found.items() if len(devices) == 1}


def _kept_parameters(kind: ast.ClassDef | None) -> dict[str, str]:
    """Return the parameters that a constructor keeps, each with the attribute that it binds to it."""
    begin = methods_of(kind).get("__init__") if kind is not None else None
    given = {argument.arg for argument in parameters(begin)} if begin is not None else set[str]()
    assigned = [node for node in (walk(begin) if begin is not None else ()) if isinstance(node, ast.Assign)]
    pairs = ((node.value, node.targets[0]) for node in assigned if len(node.targets) == 1)
    return {value.id: text(target) for value, target in pairs if isinstance(value, ast.Name) and value.id in given}


def _is_given(device: str, function: Method, kind: ast.ClassDef | None) -> bool:
    """Return whether a device, as written, is a parameter of a function, or set by the constructor of its class."""
    begin = methods_of(kind).get("__init__") if kind is not None else None
    assigned = [node for node in (walk(begin) if begin is not None else ()) if isinstance(node, ast.Assign)]
    kept = {text(target) for node in assigned for target in node.targets}
    return device in {argument.arg for argument in parameters(function)} | kept
