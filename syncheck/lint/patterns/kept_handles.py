"""Asynchronous collectives whose handles wait too late, or never (SYN602, SYN603).

A loop writes the buffer again that the collective of the iteration before still uses, or makes a new list of handles in
each iteration, of which the last is waited for; or an object keeps a handle that its file only compares with None, or
sets to None, or a list of handles that its file only clears.
"""

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    bound_names,
    children,
    classes_in,
    function_around,
    is_quoted,
    nodes_in,
    own_attribute,
    parameters,
    stored_names,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.pending_writes import can_start, is_start, may_wait_for_collective, tensors_of, written
from syncheck.rules import collective_buffer_modified, collective_result_before_wait, dropped_work
from syncheck.source.expressions import has_line, last_name
from syncheck.source.words import words_of

_WITHOUT_WAITS = frozenset({"object", "Module", "ABC", "Protocol", "Generic", "Function", "Optimizer", "Enum"})
"""Base classes of libraries that wait for no handle of a program."""
_STARTED = "the collective of the iteration before is started here"
_HELP = "wait for the handle of `{collective}` before the next iteration writes its buffer"
_HELP_READ = "call `wait()` on the handle before `{name}` is used"
_DROPPED_ALL = "call `wait()` on each handle in `{handles}` before the list is emptied"
_OUTSIDE = "create `{handles}` before the loop"
_DROPPED = "call `{handle}.wait()` before its tensor is used"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return can_start(source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the findings."""
    lines = main_lines_of(context.known)
    in_functions = (
        found for function, nodes in functions_with_nodes(context.tree) for found in _of(function, nodes, context.sites)
    )
    never = (*_never_waited_for(context.tree, context.sites), *_only_collected(context.tree, context.sites))
    yield from (found for found in (*in_functions, *never) if found.location.frame.line not in lines)


def _of(function: Method, nodes: Sequence[ast.AST], sites: SourceSites) -> Iterator[Finding]:
    """Yield the findings of one function."""
    loops = [node for node in nodes if isinstance(node, ast.For)]
    yield from (_overwritten(*pair, function.name, sites) for loop in loops for pair in _written_again(loop))
    collected = [pair for loop in loops for pair in _collected(loop)]
    early = (pair for loop in loops if collected for pair in _read_early(loop, collected))
    for start, use in (*early, *_given_to_autograd(function, nodes)):
        facts, advice = {"collective": f"`{last_name(start.func)}`"}, _HELP_READ.format(name=text(use))
        yield sites.warning(collective_result_before_wait.RULE, use, function.name, advice, **facts)
    for start, handles in (pair for loop in loops for pair in _lost_in(loop, nodes)):
        facts, advice = {"collective": f"`{last_name(start.func)}`"}, _OUTSIDE.format(handles=handles)
        yield sites.warning(dropped_work.RULE, start, function.name, advice, **facts)


def _overwritten(start: ast.Call, write: ast.stmt, function: str, sites: SourceSites) -> Finding:
    collective = last_name(start.func)
    facts = {"tensor": f"`{written(write)}`", "collective": f"`{collective}`"}
    advice = _HELP.format(collective=collective)
    found = sites.warning(collective_buffer_modified.RULE, write, function, advice, **facts)
    started = sites.related(start, function, _STARTED)
    return replace(found, related=(started,))


def _written_again(loop: ast.For) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Yield each start in a loop without waits, with the write of a buffer of all iterations that precedes it."""
    called = [last_name(node.func) for node in walk(loop) if isinstance(node, ast.Call)]
    if may_wait_for_collective(called):
        return
    made = {name: step.value for step in loop.body if isinstance(step, ast.Assign) for name in bound_names(step)}
    stored = stored_names(walk(loop))
    for index, step in enumerate(loop.body):
        start = step.value if isinstance(step, ast.Assign) and isinstance(step.value, ast.Call) else None
        if start is not None and is_start(start):
            kept = {tensor for tensor in tensors_of(start) if _is_kept(tensor, made, stored)}
            write = next((other for other in loop.body[:index] if written(other) in kept), None)
            if write is not None:
                yield start, write


def _is_kept(tensor: str, made: dict[str, ast.expr], stored: Set[str]) -> bool:
    """Return whether all iterations use the same memory for a variable: it is bound before, or to a slice of such."""
    match made.get(tensor):
        case None:
            return tensor.isidentifier() and tensor not in stored
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(lower=None)):
            return name not in stored
        case _:
            return False


class _Collected(NamedTuple):
    """A collective whose handle a loop over objects appends to a list; it writes an attribute of each object."""

    start: ast.Call
    handles: str
    result: str


def _collected(loop: ast.For) -> Iterator[_Collected]:
    owner = loop.target.id if isinstance(loop.target, ast.Name) else ""
    for step in loop.body if owner else ():
        match step:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=handles, attr="append"), args=[ast.Call() as start])):
                result = start.args[0] if start.args else None
                if is_start(start) and isinstance(result, ast.Attribute) and text(result.value) == owner:
                    yield _Collected(start, text(handles), result.attr)
            case _:
                pass


def _read_early(loop: ast.For, collected: Sequence[_Collected]) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Yield the start and the first use of each result before its wait: `for bucket, work in zip(buckets, works)`."""
    match loop:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=owner), ast.Name(id=work)]),
            iter=ast.Call(func=ast.Name(id="zip"), args=[_, handles]),
        ):
            nodes = walk(loop)
            waits = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "wait"]
            own = [call for call in waits if isinstance(call.func, ast.Attribute) and text(call.func.value) == work]
            for each in (each for each in collected if own and len(own) == len(waits)):
                name = f"{owner}.{each.result}"
                uses = [node for node in nodes if isinstance(node, ast.Attribute) and text(node) == name]
                first = min(uses, key=lambda node: node.lineno, default=None)
                is_early = first is not None and first.lineno < min(call.lineno for call in own)
                if first is not None and is_early and each.handles == text(handles):
                    yield each.start, first
        case _:
            pass


def _given_to_autograd(function: Method, nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield the starts in a hook that drops their handles, with the gradient that it returns to autograd."""
    if "hook" not in words_of(function.name):
        return
    own = {parameter.arg for parameter in parameters(function)}
    dropped = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    returned = [node.value for node in nodes if isinstance(node, ast.Return) and isinstance(node.value, ast.Name)]
    for start in filter(is_start, dropped):
        yield from ((start, value) for value in returned if value.id in own & tensors_of(start))


def _lost_in(loop: ast.For, nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Call, str]]:
    """Yield the starts whose handles a loop collects in a list of each iteration, which only the code after it uses.

    Args:
        loop: the loop.
        nodes: the nodes of its function.
    """
    inside = [node for step in loop.body for node in walk(step)]
    made = {name: step.value for step in loop.body if isinstance(step, ast.Assign) for name in bound_names(step)}
    lists = {name for name, value in made.items() if isinstance(value, ast.List) and not value.elts}
    started = {name: value for name, value in made.items() if isinstance(value, ast.Call) and is_start(value)}
    for step in loop.body:
        match step:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=handles), attr="append"), args=[handle])):
                start = started.get(handle.id) if isinstance(handle, ast.Name) else handle
                uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == handles]
                loads = [node for node in uses if isinstance(node.ctx, ast.Load)]
                is_used = any(node.lineno > (loop.end_lineno or 0) for node in loads)
                is_only_filled = sum(node in inside for node in loads) == 1
                if isinstance(start, ast.Call) and is_start(start) and handles in lists and is_used and is_only_filled:
                    yield start, handles
            case _:
                pass


def _never_waited_for(tree: ast.Module, sites: SourceSites) -> Iterator[Finding]:
    """Yield the collectives whose handles a file keeps in an attribute that it only compares with or sets to None."""
    nodes = nodes_in(tree)
    started = [(node, _handle(node)) for node in nodes if isinstance(node, ast.Assign) and _handle(node)]
    if not started:
        return
    parents = {child: node for node in nodes for child in children(node)}
    for node, name in started:
        read = [use for use in nodes if isinstance(use, ast.Attribute) and use.attr == name]
        read = [use for use in read if isinstance(use.ctx, ast.Load)]
        is_dropped = bool(read) or _is_reset(tree, name, node)
        is_elsewhere = _may_be_inherited(tree, node.lineno) or is_quoted(name, sites.text)
        if is_dropped and not is_elsewhere and all(isinstance(parents.get(use), ast.Compare) for use in read):
            function = getattr(function_around(tree, node.lineno), "name", "")
            facts = {"collective": f"`{last_name(getattr(node.value, 'func', None))}`"}
            advice = _DROPPED.format(handle=text(node.targets[0]))
            yield sites.warning(dropped_work.RULE, node.value, function, advice, **facts)


def _only_collected(tree: ast.Module, sites: SourceSites) -> Iterator[Finding]:
    """Yield the collectives whose handles a file appends to a list of an object that it only counts or clears."""
    nodes = nodes_in(tree)
    started = [kept for node in nodes if (kept := _list_of_handles(node))]
    if not started or "synchronize(" in sites.text:  # which may wait for the collectives
        return
    parents = {child: node for node in nodes for child in children(node)}
    for name, start in started:
        uses = [use for use in nodes if isinstance(use, ast.Attribute) and use.attr == name]
        is_cleared = any(_is_cleared(use, parents) for use in uses)
        if not is_cleared or _may_be_inherited(tree, start.lineno) or is_quoted(name, sites.text):
            continue
        if all(_is_counted(use, parents) or isinstance(use.ctx, ast.Store) for use in uses):
            function = getattr(function_around(tree, start.lineno), "name", "")
            facts = {"collective": f"`{last_name(start.func)}`"}
            advice = _DROPPED_ALL.format(handles=f"self.{name}")
            yield sites.warning(dropped_work.RULE, start, function, advice, **facts)


def _list_of_handles(node: ast.AST) -> tuple[str, ast.Call] | None:
    """Return the attribute with the list to which a statement appends a handle, and its collective; otherwise None."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=kept, attr="append"), args=[ast.Call() as start])):
            return (own_attribute(kept), start) if own_attribute(kept) and is_start(start) else None
        case _:
            return None


def _is_cleared(use: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a list is emptied: `self.works.clear()`."""
    method = parents.get(use)
    return isinstance(method, ast.Attribute) and method.attr == "clear"


def _is_counted(use: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a list is only appended to, emptied, tested or counted."""
    match parents.get(use):
        case ast.Attribute(attr="append" | "clear") | ast.If() | ast.While() | ast.UnaryOp():
            return True
        case ast.Call(func=ast.Name(id="len" | "bool")):
            return True
        case _:
            return False


def _may_be_inherited(tree: ast.Module, line: int) -> bool:
    """Return whether the class around a line has a base that the file does not define, and whose methods may wait."""
    known = {kind.name for kind in classes_in(tree)} | _WITHOUT_WAITS
    around = (kind for kind in classes_in(tree) if has_line(kind, line))
    return any(last_name(base) not in known for kind in around for base in kind.bases)


def _is_reset(tree: ast.Module, name: str, start: ast.Assign) -> bool:
    """Return whether a function other than a constructor and the one that starts the collective drops the handle."""
    functions = functions_with_nodes(tree)
    others = [nodes for function, nodes in functions if function.name != "__init__" and start not in nodes]
    return any(_drops(node, name) for nodes in others for node in nodes)


def _drops(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=attribute)], value=ast.Constant(value=None)):
            return attribute == name
        case _:
            return False


def _handle(node: ast.Assign) -> str:
    """Return the attribute to which an assignment binds the handle of a collective; "" for any other assignment."""
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Call() as start) if is_start(start):
            return name
        case _:
            return ""
