"""Tensors that a block of code writes while an asynchronous collective that it has started still uses them (SYN602).

The check compares expressions, such as `param.grad`, because the objects are often unknown: the parameters of a model
that the function gets, or the elements of an unknown list. It looks only at the statements of the same block, up to the
first call that may wait.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint import deferred
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import NO_WRITES, branches, owner_of_call, statements, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import collective_buffer_modified
from syncheck.semantics.collectives import FUNCTIONS, Collective, Parameter
from syncheck.source.expressions import bodies, last_name

Function = ast.FunctionDef | ast.AsyncFunctionDef
_CLOSED = Function | ast.ClassDef
"""Nodes whose statements run at another time, or belong to another function."""

_STARTING = re.compile(r"\basync_op\b|\bi(?:send|recv)\(")
_VIEWS = frozenset({"data", "detach", "view", "flatten", "contiguous"})
"""Members of a tensor that have its memory."""
_TRANSPOSED = re.compile(r"\.(?:t\(|T\b|mT\b|transpose\(|permute\(|swapaxes\(|movedim\()")
_IDLE = frozenset(
    """append extend add print len get_world_size get_rank div_ mul_ copy_ zero_ add_ sub_ fill_ sum range""".split()
)
"""Calls between the start and the write that cannot reach the handle, or that are writes themselves."""
_LIBRARIES = ("torch.", "math.", "F.")
"""Libraries whose functions cannot reach it either, but for the synchronous collectives of torch."""
STARTED = "the collective is started here"
"""Message of the location where a finding's collective is started."""
_HELP = "call `wait()` on the handle of `{collective}` first, or write before the collective is started"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return can_start(source)


def can_start(source: str) -> bool:
    """Return whether a file may start asynchronous collectives."""
    may_start = any(word in source for word in ("async_op", "isend(", "irecv("))
    return may_start and "dist" in source and _STARTING.search(source) is not None


def findings(context: Context) -> Iterator[Finding]:
    """Yield the writes."""
    lines = lines_of(context.known)
    for kept, write, function in _waited_for_late(context.functions):
        if write.lineno not in lines:
            yield _finding(kept.start, write, (kept.starter, function.name), context.sites)
    for outer in context.functions:
        source = deferred.source_of(outer)
        if source is not None and not _STARTING.search(source):
            continue
        for function in (node for node in walk(outer) if isinstance(node, Function)):
            for start, write in first_uses(function, tensors_of, lambda step, tensors: written(step) in tensors):
                if not lines & {start.lineno, write.lineno} and not _is_given_copy(start, function):
                    yield _finding(start, write, (function.name, function.name), context.sites)


def _is_given_copy(start: ast.Call, function: Function) -> bool:
    """Return whether a collective gets `x.contiguous()` of a transposed tensor, which is a copy."""
    methods = [part for each in start.args for part in walk(each) if isinstance(part, ast.Attribute)]
    owners = {text(method.value) for method in methods if method.attr in {"contiguous", "flatten"}}
    made = [node for node in walk(function) if isinstance(node, ast.Assign)]
    values = [text(node.value) for node in made if any(text(target) in owners for target in node.targets)]
    return any(_TRANSPOSED.search(value) for value in (*owners, *values))


def _finding(start: ast.Call, write: ast.stmt, functions: tuple[str, str], sites: SourceSites) -> Finding:
    """Return the finding; `functions`: those that contain the start and the write."""
    collective = last_name(start.func)
    target = written(write)
    facts = {"tensor": f"`{target}`", "collective": f"`{collective}`"}
    found = Finding.of(collective_buffer_modified.RULE, sites.location(sites.id_of(write, functions[1])), **facts)
    started = sites.related(start, functions[0], STARTED)
    return replace(found, related=(started,), help=_HELP.format(collective=collective))


class _Kept(NamedTuple):
    """A collective of an object, whose handle and tensor are attributes of the object.

    `starter`: the function that starts it.
    """

    start: ast.Call
    starter: str
    handle: str
    tensor: str


def _waited_for_late(functions: Sequence[Function]) -> Iterator[tuple[_Kept, ast.stmt, Function]]:
    """Yield each write of an object's tensor before the wait for its collective, in the same block."""
    started = [kept for function in functions for kept in _kept_by(function)]
    for function in functions if started else ():
        for steps in (steps for node in statements(function) if isinstance(node, ast.stmt) for steps in bodies(node)):
            for index, step in enumerate(steps):
                owner, _, name = written(step).rpartition(".")
                for kept in (kept for kept in started if owner and kept.tensor == name):
                    if _is_before_wait(f"{owner}.{kept.handle}", step, steps[index + 1 :], function):
                        yield kept, step, function


def _kept_by(function: Function) -> Iterator[_Kept]:
    """Yield the collectives that a function starts with `o.work = dist.all_reduce(o.buffer, async_op=True)`."""
    source = deferred.source_of(function)
    for step in statements(function) if source is None or _STARTING.search(source) else ():
        match step:
            case ast.Assign(targets=[ast.Attribute(value=owner, attr=handle)], value=ast.Call() as start):
                tensors = tensors_of(start) if is_start(start) else set[str]()
                parts = (tensor.rpartition(".") for tensor in tensors)
                yield from (_Kept(start, function.name, handle, name) for of, _, name in parts if of == text(owner))
            case _:
                pass


def _is_before_wait(handle: str, write: ast.stmt, after: Sequence[ast.stmt], function: Function) -> bool:
    """Return whether a handle is first waited for after a write, and not started in between."""
    waits = [call for call in _calls(function) if may_wait(last_name(call.func))]
    if any((call.lineno, call.col_offset) < (write.lineno, write.col_offset) for call in waits):
        return False
    for step in after:
        if any(_waits_for(call, handle) for call in _calls(step)):
            return True
        if not _is_simple(step) or _may_wait(step) or _rebinds(step, {handle}):
            return False
        if any(last_name(call.func) not in _IDLE for call in _calls(step)):
            return False
    return False


def _waits_for(call: ast.Call, handle: str) -> bool:
    return last_name(call.func) == "wait" and owner_of_call(call) == handle


def first_uses(
    function: Function, tensors_in: Callable[[ast.Call], set[str]], uses: Callable[[ast.stmt, set[str]], bool]
) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Yield each start of a collective with the first later statement of its block that certainly uses its tensors.

    Args:
        function: the function.
        tensors_in: returns the tensors of a collective that matter.
        uses: returns whether a statement uses one of them.
    """
    for node in statements(function, lambda node: node is function or not isinstance(node, _CLOSED)):
        if node is not function and isinstance(node, _CLOSED):
            continue
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and not _is_coalescing(node):
                for start, after in _starts_in(block):
                    use = _first_use(after, tensors_in(start), uses)
                    if use is not None:
                        yield start, use


def _starts_in(block: list[ast.stmt]) -> Iterator[tuple[ast.Call, list[ast.stmt]]]:
    """Yield each statement of a block that only starts a collective, with those after it."""
    for position, statement in enumerate(block):
        started = [call for call in _calls(statement) if is_start(call)] if _is_simple(statement) else []
        if len(started) == 1 and not _may_wait(statement):
            yield started[0], block[position + 1 :]


def _first_use(
    block: Sequence[ast.stmt], tensors: set[str], uses: Callable[[ast.stmt, set[str]], bool]
) -> ast.stmt | None:
    """Return the first statement that certainly uses a tensor before anything may wait or rebind it."""
    for statement in block:
        if not _is_simple(statement) or _may_wait(statement):
            return None
        if uses(statement, tensors):
            return statement
        if _rebinds(statement, tensors) or not all(map(_leaves_pending, _calls(statement))):
            return None
    return None


def _leaves_pending(call: ast.Call) -> bool:
    """Return whether a call surely waits for no collective: a function of torch, or another collective that starts."""
    name = text(call.func)
    is_of_torch = name.startswith(_LIBRARIES) and not name.startswith("torch.distributed.")
    return last_name(call.func) in _IDLE or is_of_torch or is_start(call)


def _is_simple(statement: ast.stmt) -> bool:
    """Return whether a statement has no branches."""
    return not branches(statement) and not isinstance(statement, _CLOSED)


def _is_coalescing(node: ast.AST) -> bool:
    """Return whether a block coalesces its collectives, whose handles are then those of the whole block."""
    return isinstance(node, ast.With) and any("coalescing" in text(item.context_expr) for item in node.items)


def _calls(node: ast.AST) -> list[ast.Call]:
    return [inner for inner in walk(node) if isinstance(inner, ast.Call)]


def _may_wait(statement: ast.stmt) -> bool:
    return any(may_wait(last_name(call.func)) for call in _calls(statement))


def may_wait_for_collective(called: Iterable[str]) -> bool:
    """Return whether a loop that calls some functions may wait for a collective, perhaps by polling its handle."""
    return any(name == "is_completed" or may_wait(name) for name in called)


def is_start(call: ast.Call) -> bool:
    """Return whether a call certainly starts an asynchronous collective of torch.distributed."""
    collective = _collective(call)
    flags = [word.value for word in call.keywords if word.arg == "async_op"]
    is_async = any(isinstance(flag, ast.Constant) and flag.value is True for flag in flags)
    return collective is not None and (is_async or collective.always_asynchronous)


def _collective(call: ast.Call) -> Collective | None:
    """Return the collective that a function of `dist`, `c10d` or `torch.distributed` runs; None for others."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="dist" | "c10d") | ast.Attribute(attr="distributed"), attr=name):
            return FUNCTIONS.get(name)
        case _:
            return None


def tensors_of(call: ast.Call) -> set[str]:
    """Return the expressions for the tensors of a collective that are variables or attributes."""
    collective = _collective(call)
    return _given(call, (*collective.writes, *collective.reads)) if collective is not None else set()


def results_of(call: ast.Call) -> set[str]:
    """Return those of the tensors of a collective that it writes."""
    collective = _collective(call)
    return _given(call, collective.writes) if collective is not None else set()


def _given(call: ast.Call, parameters: Iterable[Parameter]) -> set[str]:
    """Return the variables or attributes that a call passes for some parameters, as they are written."""
    named = {word.arg: word.value for word in call.keywords}
    given = [
        named.get(keyword, call.args[position] if position < len(call.args) else None)
        for position, keyword in parameters
    ]
    return {name for value in given if value is not None and (name := name_of(value))}


def name_of(node: ast.expr) -> str:
    """Return the source of a variable or attribute, without members that have the same memory; "" for others."""
    while True:
        match node:
            case ast.Attribute(value=value, attr=name) | ast.Call(func=ast.Attribute(value=value, attr=name)) if (
                name in _VIEWS
            ):
                node = value
            case ast.Name() | ast.Attribute(value=ast.Name()) | ast.Attribute(value=ast.Attribute()):
                return text(node)
            case _:
                return ""


def written(statement: ast.stmt) -> str:
    """Return the expression that a statement modifies in place; "" if there is none."""
    match statement:
        case ast.AugAssign(target=ast.Name() | ast.Attribute() as target):
            return name_of(target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=name))) if (
            name.endswith("_") and not name.endswith("__") and name not in NO_WRITES
        ):
            return name_of(value)
        case _:
            return ""


def _rebinds(statement: ast.stmt, tensors: set[str]) -> bool:
    """Return whether a statement may bind one of the expressions, or an object that it is an attribute of."""
    stored = {
        text(node)
        for node in walk(statement)
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load)
    }
    return any(name == tensor or tensor.startswith(f"{name}.") for name in stored for tensor in tensors)
