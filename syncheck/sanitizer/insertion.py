"""Conditions for inserting a statement before or after a line of the program."""

import ast

from syncheck.findings import Frame
from syncheck.hb.ids import SiteId
from syncheck.sanitizer.monitor import Sites, SourceLine
from syncheck.source.expressions import STREAM_CONTEXTS, last_name

_BACKWARD = frozenset({"backward", "grad"})
_TIMERS = frozenset({"timeit", "repeat", "autorange"})


def is_called_elsewhere(line: SourceLine, callers: tuple[SourceLine, ...]) -> bool:
    """Return whether a line is in a lambda that is called by a statement other than the one that creates it."""
    if not line.function.endswith("<lambda>") or line.scopes is None:
        return False
    calling = (caller for caller in callers if caller.path == line.path and caller.function != line.function)
    return not any(line.scopes.statement(caller.number) is line.statement for caller in calling)


def can_insert(line: SourceLine, earlier: tuple[SourceLine, ...]) -> bool:
    """Return whether a statement can be inserted before a line's statement and after those of other lines."""
    if line.scopes is None:
        return False
    others = [other.number for other in earlier if other.path == line.path]
    is_elsewhere = not any(other.function == line.function for other in earlier)
    if earlier and is_elsewhere and line.scopes.waits_for_thread(line.number):
        return False  # the earlier work may be submitted while the statement runs
    return line.scopes.can_insert_before(line.number, others)


def launches(line: SourceLine, earlier: tuple[SourceLine, ...]) -> bool:
    """Return whether an insertion before a line comes too early because earlier lines are in its own statement.

    They are if the line is one of them, as in `if launch().item(): ...`, before which nothing can be inserted anyway.
    """
    others = [other.number for other in earlier if other.path == line.path]
    scopes = line.scopes
    if scopes is None or line.number in others:
        return scopes is not None
    return scopes.can_insert_before(line.number) > scopes.can_insert_before(line.number, others)


def runs_again(sites: Sites, site: SiteId, before: SiteId) -> bool:
    """Return whether a call is the same as an earlier one: in another iteration, or in another call of its function.

    Calls that a library makes in one call of the program, such as those of a backward pass, are different ones.
    """
    if site == before or not before:
        return site == before
    later, earlier = sites.location(site), sites.location(before)
    return later.frame == earlier.frame and all(frame.is_user for frame in (*later.stack[:1], *earlier.stack[:1]))


def runs_backward(statement: ast.AST | None) -> bool:
    """Return whether a statement runs a backward pass, during which autograd calls the program's hooks."""
    return _calls_any(statement, _BACKWARD)


def times_code(statement: ast.AST | None) -> bool:
    """Return whether a statement calls something of the module timeit, which runs and times code."""
    return _calls_any(statement, _TIMERS)


def _calls_any(statement: ast.AST | None, names: frozenset[str]) -> bool:
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call)) if statement is not None else ()
    return any(last_name(function) in names for function in calls)


def is_unbound_item(name: str, origin: SourceLine, line: SourceLine) -> bool:
    """Return whether an item is bound only after a line, when that runs for the first time, as in a loop."""
    is_in_function = (line.path, line.function) == (origin.path, origin.function)
    return is_in_function and line.number < origin.number and "[" in name and not name.endswith("[...]")


def are_in_one_library_call(earlier: tuple[Frame, ...], later: tuple[Frame, ...]) -> bool:
    """Return whether a library function makes two calls, in this order and from different lines.

    No statement of its callers can then be between them.

    Args:
        earlier: stack of the earlier call, innermost first.
        later: stack of the later call.
    """
    for first, second in zip(reversed(earlier), reversed(later), strict=False):
        if (first.path, first.function, first.line) != (second.path, second.function, second.line):
            is_same_function = (first.path, first.function) == (second.path, second.function)
            return is_same_function and not first.is_user and first.line < second.line
    return False


def before_stream_block(line: SourceLine) -> SourceLine | None:
    """Return the line of the `with` statement around a line that makes another stream current; None if there is none.

    Before this statement, the stream of the caller is still the current one.
    """
    found = line.scopes.manager_around(line.number, STREAM_CONTEXTS) if line.scopes is not None else None
    number = found.context_expr.lineno if found is not None else line.number
    return line._replace(number=number, column=0) if number < line.number else None
