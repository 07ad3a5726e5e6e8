"""Events that stand for the use of some memory, but are recorded before it (SYN105).

A method waits until a buffer is filled, records that it was used, and returns it. The stream that fills the buffer
again waits for the second event, which does not cover what the caller does with the buffer. Or a function hands a
buffer back, which records that event, and then uses the buffer.
"""

import ast
from collections.abc import Iterator, Sequence, Set

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import is_on_host
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    Method,
    awaited_event,
    blocks_in,
    changed_in_place,
    names,
    nodes_in,
    once,
    parameters,
    recorded_event,
    stored_names,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import arguments_of, last_name

_WORK = frozenset({"stream", "copy_", "to", "cuda"})
"""Calls that show that a function itself works on what it waits for."""
_FLAW = "`{event}` is recorded before the caller can use what `{function}` gives it, so it does not stand for that use"
_FLAW_RELEASED = "`{call}` records that `{name}` is no longer used, but line {line} still uses it"
_HELP_RELEASED = "move the call after line {line}"
_HELP = "record it after the use: when the caller is done, or asks for the next one"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".record" in source and ".wait" in source and "Stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the records."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        yield from _used_after_release(function, nodes, context.tree, context.sites, lines)
        records = [event for node in nodes if (event := recorded_event(node)) is not None]
        for steps in blocks_in(function, nodes) if records else ():
            for index, step in enumerate(steps):
                event = recorded_event(step.value) if isinstance(step, ast.Expr) else None
                if event is None or step.lineno in lines or [text(each) for each in records].count(text(event)) > 1:
                    continue
                if _attribute(event) in _awaited(context.tree) and _is_given_unused(event, steps, index, function):
                    flaw = _FLAW.format(event=text(event), function=function.name)
                    yield context.sites.warning(unordered_side_stream.RULE, step, function.name, _HELP, flaw=flaw)


def _used_after_release(
    function: Method, nodes: Sequence[ast.AST], tree: ast.Module, sites: SourceSites, lines: Set[int]
) -> Iterator[Finding]:
    """Yield the calls that hand back a buffer which the following statements use."""
    methods = _releasing_methods(tree)
    for steps in blocks_in(function, nodes) if methods else ():
        for index, step in enumerate(steps):
            match step:
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr=called), args=[ast.Name(id=name)]) as call):
                    after = steps[index + 1 :]
                case _:
                    continue
            use = next((line for each in after if (line := _line_of_use(each, name, _written(tree)))), 0)
            is_bound = any(name in stored_names(walk(each)) for each in after)
            if called in methods and use and not is_bound and step.lineno not in lines:
                flaw = _FLAW_RELEASED.format(call=text(call), name=name, line=use)
                advice = _HELP_RELEASED.format(line=use)
                yield sites.warning(unordered_side_stream.RULE, step, function.name, advice, flaw=flaw)


def _line_of_use(step: ast.stmt, name: str, memory: Set[str]) -> int:
    """Return the line in which a statement passes the memory of a variable to a call; 0 if it passes none.

    Args:
        step: the statement.
        name: the variable.
        memory: the attributes that are memory.
    """
    for call in (node for node in walk(step) if isinstance(node, ast.Call) and not is_on_host(node)):
        for given in arguments_of(call):
            match given:
                case ast.Attribute(value=ast.Name(id=owner), attr=part) if owner == name and part in memory:
                    return call.lineno
                case _:
                    pass
    return 0


@once
def _written(tree: ast.Module) -> frozenset[str]:
    """Return the attributes that a file changes in place by methods such as `copy_`."""
    changed = (changed_in_place(node) for node in nodes_in(tree))
    return frozenset(target.attr for target in changed if isinstance(target, ast.Attribute))


@once
def _releasing_methods(tree: ast.Module) -> frozenset[str]:
    """Return the methods that record an event of their only argument, for which a stream in the file waits.

    A name that several classes use for methods is left out.
    """
    functions = functions_with_nodes(tree)
    names_of_all = [function.name for function, _ in functions]
    found = set[str]()
    for function, nodes in functions:
        given = [argument.arg for argument in parameters(function)]
        events = (event for node in nodes if (event := recorded_event(node)) is not None)
        attributes = [event for event in events if isinstance(event, ast.Attribute) and _owner(event) in given[1:]]
        if len(given) == 2 and any(event.attr in _awaited(tree) for event in attributes):
            found.add(function.name)
    return frozenset(name for name in found if names_of_all.count(name) == 1)


def _is_given_unused(event: ast.expr, steps: Sequence[ast.stmt], index: int, function: Method) -> bool:
    """Return whether statements wait for the contents of some memory, record an event beside it, and pass it on.

    The wait comes right before the record, or anywhere before the body of a context manager.

    Args:
        event: the event.
        steps: the statements.
        index: the position of the record.
        function: the function that contains them.
    """
    owner = _owner(event)
    is_context = any(last_name(decorator) == "contextmanager" for decorator in function.decorator_list)
    before, after = steps[0 if is_context else max(index - 1, 0) : index], steps[index + 1 :]
    waits = [awaited_event(step.value) for step in before if isinstance(step, ast.Expr)]
    if not any(wait is not None and _owner(wait) == owner != "" and text(wait) != text(event) for wait in waits):
        return False
    is_index = isinstance(event, ast.Subscript)
    gives = any(_gives(step, owner, is_context=is_context, is_index=is_index) for step in after)
    return gives and not _works([*before, *after])


def _gives(step: ast.stmt, owner: str, *, is_context: bool, is_index: bool) -> bool:
    """Return whether a statement passes memory to the caller.

    Args:
        step: the statement.
        owner: the object or the index that the event belongs to.
        is_context: whatever a context manager yields counts.
        is_index: the owner is an index, which is no memory by itself.
    """
    if is_context:
        return any(isinstance(node, ast.Yield) for node in walk(step))
    match step:
        case ast.Return(value=ast.expr() as value) | ast.Expr(value=ast.Yield(value=ast.expr() as value)):
            return owner in names(value) and not (is_index and text(value) == owner)
        case _:
            return False


def _works(steps: Sequence[ast.stmt]) -> bool:
    """Return whether some statements start work on a GPU, as far as their own calls show."""
    calls = (last_name(node.func) for step in steps for node in walk(step) if isinstance(node, ast.Call))
    return any(name in _WORK or (name.endswith("_") and not name.endswith("__")) for name in calls)


def _owner(event: ast.expr) -> str:
    """Return the object or the index that an event belongs to: `slot` of `slot.used` and `self.used[slot]`."""
    match event:
        case ast.Attribute(value=ast.Name(id=name)) if name != "self":
            return name
        case ast.Subscript(value=ast.Attribute(), slice=ast.Name(id=name)):
            return name
        case _:
            return ""


def _attribute(event: ast.expr) -> str:
    """Return the attribute with an event, or with a list of events."""
    return last_name(event.value if isinstance(event, ast.Subscript) else event)


@once
def _awaited(tree: ast.Module) -> frozenset[str]:
    """Return the attributes with events that streams wait for."""
    events = (awaited_event(node) for node in nodes_in(tree))
    return frozenset(_attribute(event) for event in events if event is not None)
