"""Copies that other code reads on the host after it has only made a stream wait for their event (SYN402).

A copy, and the event after it, reach the reader together, as in the jobs of a thread that writes checkpoints:
`job.copied.wait()`, then `torch.save(job.buffers, path)`. Or one function copies, records, waits and reads.
"""

import ast
import re
from collections.abc import Container, Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes, own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    VIEWS,
    awaited_event,
    classes_of_methods,
    is_non_blocking,
    methods_of,
    nodes_in,
    own_attribute,
    recorded_event,
    text,
    viewed,
)
from syncheck.rules import event_wait_is_not_host_sync as rule
from syncheck.source.expressions import last_name

_READING = frozenset({"numpy", "tolist", "tobytes", "save", "dump", "from_dlpack", "memoryview"})
"""Functions and methods that read host memory."""
_MEMBERS = frozenset({"numpy", "tolist", "tobytes", "item"})
"""Methods of a tensor that read its memory on the host, if it is there."""
_WAITING = frozenset({"synchronize", "query", "item", "cpu"})
"""Calls for which the host may wait until the copy is complete."""
_WORKING = frozenset({"stream", "StreamContext", "cuda", "to", "copy_", "record_stream"})
"""Calls that use the copies on a GPU, for which making a stream wait is right."""
_MAKES_EVENT = re.compile(r"cuda\.Event|record_event\(")
_OF_HOST = frozenset({"threading.Event", "asyncio.Event", "multiprocessing.Event", "mp.Event"})
_HELP = "call `{event}.synchronize()`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "non_blocking" in source and _MAKES_EVENT.search(source) is not None


def findings(tree: ast.Module, sites: SourceSites, known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the waits of streams after which a function reads what it was given on the host.

    Args:
        tree: the file.
        sites: the call sites of the file.
        known: the findings on paths through the file. One in the same line is more specific.
    """
    lines = main_lines_of(known)
    events = _events(tree)
    owners = classes_of_methods(tree)
    for function, nodes in functions_with_nodes(tree):
        for wait in (node for node in nodes if isinstance(node, ast.Call)):
            event = awaited_event(wait)
            if event is None or last_name(event) not in events or wait.lineno in lines:
                continue
            read = _own_read(wait, text(event), nodes)
            if read is not None:
                if read.lineno not in lines:
                    yield _finding(event, wait, read, function.name, sites)
                continue
            given = _variable(event)
            if given in {"", "self"} or "pin_memory" not in sites.text:
                continue
            used = [*nodes, *_called_with(given, wait, nodes, owners.get(function))]
            read = _read_after(wait, used, nodes)
            if read is not None:
                yield _finding(event, wait, read, function.name, sites)


def _finding(event: ast.expr, wait: ast.Call, read: ast.Call, function: str, sites: SourceSites) -> Finding:
    consequence = f"the host then reads what was copied, in line {read.lineno}"
    words = {"event": text(event), "consequence": consequence}
    return sites.warning(rule.RULE, wait, function, _HELP.format(event=text(event)), **words)


def _events(tree: ast.Module) -> set[str]:
    """Return the names of the variables and attributes that are events of a GPU."""
    found: set[str] = set()
    others: set[str] = set()  # of the standard library
    for node in nodes_in(tree):
        match node:
            case ast.Assign(targets=targets, value=ast.Call(func=made)) if text(made) in _OF_HOST:
                others |= {last_name(target) for target in targets}
            case ast.AnnAssign(target=target, annotation=kind) if "cuda.Event" in ast.unparse(kind):
                found.add(last_name(target))
            case ast.arg(arg=name, annotation=ast.expr() as kind) if "cuda.Event" in ast.unparse(kind):
                found.add(name)
            case ast.Assign(targets=targets, value=ast.Call() | ast.IfExp() as made) if _MAKES_EVENT.search(text(made)):
                found |= {last_name(target) for target in targets}
            case _:
                pass
    return found - others - {""}


def _own_read(wait: ast.Call, event: str, nodes: Sequence[ast.AST]) -> ast.Call | None:
    """Return the first read on the host, after a wait, of what the function copied before the event; None without one.

    Args:
        wait: the wait of a stream.
        event: the event, as written.
        nodes: the nodes of the function.
    """
    calls = sorted((node for node in nodes if isinstance(node, ast.Call)), key=lambda call: call.lineno)
    records = [call.lineno for call in calls if (made := recorded_event(call)) is not None and text(made) == event]
    recorded = max((line for line in records if line < wait.lineno), default=0)
    copies = {memory: call.lineno for call in calls if call.lineno < recorded and (memory := _filled(call))}
    for read in calls if copies else ():
        method = read.func
        if read.lineno <= wait.lineno or not isinstance(method, ast.Attribute) or method.attr not in _MEMBERS:
            continue
        begin = copies.get(text(viewed(method.value, VIEWS)), 0)
        if begin and not any(begin < call.lineno <= read.lineno and _may_complete(call, copies) for call in calls):
            return read
    return None


def _filled(call: ast.Call) -> str:
    """Return the memory that a call copies to without waiting, as written and without its views; "" for others."""
    match call:
        case ast.Call(func=ast.Attribute(value=target, attr="copy_")) if is_non_blocking(call):
            return text(viewed(target, VIEWS))
        case _:
            return ""


def _may_complete(call: ast.Call, copies: Container[str]) -> bool:
    """Return whether the host may wait in a call until copies are complete, unless it only reads their memory."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _WAITING | _MEMBERS:
        return last_name(call.func) in _WAITING
    return text(viewed(call.func.value, VIEWS)) not in copies


def _variable(event: ast.expr) -> str:
    """Return the variable whose attribute an event is; "" for any other event."""
    while isinstance(event, ast.Attribute):
        event = event.value
        if isinstance(event, ast.Name):
            return event.id
    return ""


def _called_with(given: str, wait: ast.Call, nodes: Sequence[ast.AST], owner: ast.ClassDef | None) -> Iterator[ast.AST]:
    """Yield the nodes of the methods that a function passes a variable to after a wait."""
    methods = methods_of(owner) if owner is not None else {}
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.lineno >= wait.lineno]
    for call in calls:
        called = methods.get(own_attribute(call.func))
        if called is not None and any(isinstance(value, ast.Name) and value.id == given for value in call.args):
            yield from own_nodes(called)


def _read_after(wait: ast.Call, used: Sequence[ast.AST], own: Sequence[ast.AST]) -> ast.Call | None:
    """Return the first read on the host after a wait; None if there is none, or if something else may order it."""
    calls = [node for node in used if isinstance(node, ast.Call)]
    called = {last_name(call.func) for call in calls}
    if called & (_WAITING | _WORKING):
        return None
    inside = set(own)
    after = (call for call in calls if call not in inside or call.lineno > wait.lineno)
    return next((call for call in after if last_name(call.func) in _READING), None)
