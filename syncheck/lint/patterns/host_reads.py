"""Copies that other code reads on the host after it has only made a stream wait for their event (SYN402).

A copy, and the event after it, reach the reader together, as in the jobs of a thread that writes checkpoints:
`job.copied.wait()`, then `torch.save(job.buffers, path)`. The class of the jobs may be imported, and the wait may be in
a method of it. Or one function copies, records, waits and reads.
"""

import ast
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.copy_records import MAKES_EVENT, CopyRecords, imported_records
from syncheck.lint.interp.functions import functions_with_nodes, own_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    NO_WRITES,
    VIEWS,
    awaited_event,
    classes_of_methods,
    first_of,
    is_non_blocking,
    methods_of,
    names,
    own_attribute,
    recorded_event,
    text,
    viewed,
)
from syncheck.lint.patterns.context import Context
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
_OPERATING = re.compile(r"(?!register|load)[a-z]\w{2,}(?<!copy)_$")
"""Methods that change a tensor in place. On a GPU, they do not take tensors in host memory; `copy_` does."""
_OF_OTHERS = frozenset("wait join get close start result".split())
"""Names of methods that objects of other kinds have, too, such as processes and handles."""
_READS = re.compile(r"\.(?:numpy|tolist|tobytes)\(|\b(?:save|dump)\(")
_OF_READS = (".numpy(", ".tolist(", ".tobytes(", "save(", "dump(")
"""Words without which there is no such call. Searching for them is much faster than matching the pattern."""
_HELP = "call `{event}.synchronize()`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return _is_about_own_copies(source) or _is_about_imported_copies(source)


def _is_about_own_copies(source: str) -> bool:
    return "non_blocking" in source and MAKES_EVENT.search(source) is not None


def _is_about_imported_copies(source: str) -> bool:
    """Return whether a class that a file imports may hold copies that the file reads."""
    return any(word in source for word in _OF_READS) and _READS.search(source) is not None


class _Wait(NamedTuple):
    """A call that makes a stream wait.

    Attributes:
        call: the call.
        event: the event that it waits for, as written.
        given: the variable that holds the event; "" if none does.
    """

    call: ast.Call
    event: str
    given: str


def findings(context: Context) -> Iterator[Finding]:
    """Yield the waits of streams after which a function reads what it was given on the host."""
    lines, owners = main_lines_of(context.known), classes_of_methods(context.tree)
    records = CopyRecords(context.tree, _imported_records(context))
    for function, nodes in functions_with_nodes(context.tree):
        for wait in _waits(nodes, records):
            if wait.call.lineno in lines:
                continue
            read = _own_read(wait.call, wait.event, nodes)
            if read is None and wait.given not in {"", "self"} and records.are_pinned:
                used = [*nodes, *_called_with(wait.given, wait.call, nodes, owners.get(function))]
                read = _read_after(wait, used, nodes, records)
            elif read is not None and read.lineno in lines:
                continue
            if read is not None:
                consequence = f"the host then reads what was copied, in line {read.lineno}"
                advice = _HELP.format(event=wait.event)
                words = {"event": wait.event, "consequence": consequence}
                yield context.sites.warning(rule.RULE, wait.call, function.name, advice, **words)


def _imported_records(context: Context) -> list[ast.ClassDef]:
    """Return the imported classes whose objects may hold copies that the file reads."""
    is_likely = _is_about_imported_copies(context.source.text)
    return imported_records(context.source.imports, context.find_class) if is_likely else []


def _waits(nodes: Iterable[ast.AST], records: CopyRecords) -> Iterator[_Wait]:
    """Yield the calls of a function that make a stream wait for an event of a GPU."""
    awaited = {node.value for node in nodes if isinstance(node, ast.Await)}
    for node in nodes:
        event = awaited_event(node) if node not in awaited else None
        match node:
            case ast.Call() if event is not None and last_name(event) in records.events:
                yield _Wait(node, text(event), _variable(event))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=given), attr=name)) if (
                name in records.fences and name not in _OF_OTHERS
            ):
                yield _Wait(node, f"{given}.{records.fences[name]}", given)
            case _:
                pass


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


def _read_after(wait: _Wait, used: Sequence[ast.AST], own: Sequence[ast.AST], records: CopyRecords) -> ast.Call | None:
    """Return the first read on the host after a wait; None if there is none, or if something else may order it."""
    calls = [node for node in used if isinstance(node, ast.Call)]
    called = {last_name(call.func) for call in calls}
    if called & (_WAITING | _WORKING):
        return None
    inside, pinned = set(own), {f"{wait.given}.{name}" for name in records.pinned}
    after = (call for call in calls if call not in inside or call.lineno > wait.call.lineno)
    reads = (call for call in after if _reads(call, wait.given if call in inside else "") or _operates_on(pinned, call))
    return first_of(reads)


def _reads(call: ast.Call, given: str) -> bool:
    """Return whether a call reads host memory: with a name, only that of the variable or of a part of it."""
    if last_name(call.func) not in _READING:
        return False
    if not given:
        return True
    of_member = isinstance(call.func, ast.Attribute) and call.func.attr in _MEMBERS
    return given in names(call.func if of_member else call)


def _operates_on(pinned: Container[str], call: ast.Call) -> bool:
    """Return whether a call updates a tensor from pinned memory, which is only possible on the host."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in NO_WRITES or not _OPERATING.match(name):
        return False
    return any(text(viewed(value, VIEWS)) in pinned for value in call.args)
