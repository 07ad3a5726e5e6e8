"""Streams created in a `with` statement: other code can neither wait for them nor make them wait (SYN105)."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.kept_streams import makes_stream
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    HOST_READS,
    blocks_in,
    entered_stream,
    functions_in,
    is_non_blocking,
    names,
    parameters,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import last_name

_WORDS = re.compile(r"stream\(\s*(?:\w+\.)*Stream\(")
_HOST = re.compile(
    r"(?:(?:list|List|tuple|Tuple|Sequence)\[)?(?:int|float|str|bytes|bool|np\.ndarray|Path)\b(?:, \.\.\.)?\]?$"
)
_ORDERING = re.compile(r"wait|synchron|barrier|record|current_stream|graph|capture|sleep", re.IGNORECASE)
"""Words for code that orders streams, waits for the device (as does graph capture), or is meant to be late."""
_READING = HOST_READS | {"print"}
_FLAW = "nothing waits for the stream that is created here, and it waits for no other stream"
_FORK = "the stream that is created here never waits for the stream that computes what it reads"
_ADVICE = (
    "give the stream a name, as in `side = torch.cuda.Stream()`, so that it can wait for the current stream before "
    "this work, and the current stream for it before the results are used"
)


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return _WORDS.search(source) is not None


def findings(context: Context) -> Iterator[Finding]:
    """Yield the `with` statements of a file whose stream is not ordered against any other."""
    lines = lines_of(context.known)
    for function in functions_in(context.tree):
        if any(_ORDERING.search(name) for name in _called(own_nodes(function))):
            continue  # the host may wait before or after the block
        for node in own_nodes(function):
            if isinstance(node, ast.With) and not lines & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
                yield from _check(node, function, context.sites)


def _check(block: ast.With, function: ast.FunctionDef | ast.AsyncFunctionDef, sites: SourceSites) -> Iterator[Finding]:
    context = next((item.context_expr for item in block.items if _makes_stream(item.context_expr)), None)
    if context is None or _ORDERING.search(" ".join(text(statement) for statement in block.body)):
        return
    used = frozenset[str]().union(*(names(statement) for statement in block.body))
    called = _called(node for statement in block.body for node in walk(statement))
    is_read = bool(called & _READING)
    if is_read and any(map(_is_blocking_copy, _before(block, function))):
        return  # the host waits before and in the block
    if called and (used - called if is_read else used) & _bound_outside(block, function):
        flaw = _FORK if is_read else _FLAW
        location = sites.location(sites.id_of(context, function.name))
        yield replace(Finding.of(unordered_side_stream.RULE, location, flaw=flaw), help=_ADVICE)


def _before(block: ast.With, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """Return the statement right before a block."""
    for steps in blocks_in(function, own_nodes(function)):
        if block in steps[1:]:
            return [steps[steps.index(block) - 1]]
    return []


def _is_blocking_copy(step: ast.stmt) -> bool:
    """Return whether a statement moves something to a device by a copy that the host waits for."""
    match step:
        case ast.Assign(value=ast.Call(func=ast.Attribute(attr="to" | "cuda")) as call):
            return not is_non_blocking(call) and (last_name(call.func) == "cuda" or "dev" in text(call))
        case _:
            return False


def _bound_outside(block: ast.With, function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the parameters of a function that may be tensors, and the variables that it binds before a block."""
    given = {argument.arg for argument in parameters(function) if not _is_of_host(argument.annotation)}
    bound = (node for node in own_nodes(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return given | {node.id for node in bound if node.lineno < block.lineno}


def _is_of_host(annotation: ast.expr | None) -> bool:
    """Return whether an annotation says that a parameter is no tensor: `list[float]`."""
    return annotation is not None and _HOST.match(text(annotation)) is not None


def _makes_stream(context: ast.expr) -> bool:
    """Return whether a context makes a new stream current, at least on a GPU."""
    stream = entered_stream(context)
    return makes_stream(stream.body if isinstance(stream, ast.IfExp) else stream)


def _called(found: Iterable[ast.AST]) -> set[str]:
    """Return the last names of all called functions among some nodes."""
    return {text(node.func).rpartition(".")[2] for node in found if isinstance(node, ast.Call)}
