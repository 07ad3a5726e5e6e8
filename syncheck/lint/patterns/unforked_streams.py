"""Streams that a function or a class creates and that never wait for the stream which computes the inputs (SYN105).

An input is a tensor that the function itself uses in operators on the current stream, or a parameter or gradient of a
model by its name. Data that is moved to a device comes from the host and needs no wait.
"""

import ast
import re
from collections.abc import Iterator, Sequence, Set

from syncheck.findings import Finding
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    HOST_READS,
    NO_VALUES,
    VIEWS,
    entered_streams,
    is_on_stream,
    names,
    stored_names,
    text,
    viewed,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.unordered_streams import FLAW, HELP, blocks_of, unordered_streams
from syncheck.rules import unordered_side_stream
from syncheck.rules.model import Family
from syncheck.source.expressions import arguments_of, last_name
from syncheck.source.words import words_of

_OPERATORS = re.compile(
    r"^(?:torch|F|torch\.nn\.functional)\.(?!tensor|empty|zeros|ones|full|rand|arange|from_|as_|is_|cuda)[a-z]\w*$"
)
"""Names of torch's functions that compute with tensors."""
_OF_MODELS = frozenset("param params grad grads gradient gradients weights".split())
"""Words in the names of tensors that an optimizer or a backward pass computes on the current stream."""
_OF_HOST = re.compile(r"name|cpu|host|pin|numpy|shape|group|spec|config|meta")
_FREE = frozenset("to cuda empty zeros ones empty_like zeros_like record append print len range get_stream".split())
_ORDERING = re.compile(r"capture|graph|sleep|thread", re.IGNORECASE)
"""Words in functions whose streams are ordered in another way, or are late on purpose."""


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "Stream(" in source and "stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the first use of such an input in a block on each stream, as a warning."""
    lines = lines_of(context.known, frozenset(Family) - {Family.HOST})
    for function, nodes, stream in unordered_streams(context.tree, context.sites.text):
        blocks = sorted(blocks_of(stream, nodes), key=lambda block: block.lineno)
        if not blocks or _is_ordered_otherwise(function, nodes, blocks[0]):
            continue
        block = blocks[0]
        inputs = _inputs(nodes, block.lineno)
        is_kept = stream.startswith("self.")
        uses = (_use(each, inputs, by_name=not is_kept) for each in blocks)
        use = next((found for found in uses if found is not None), None)
        if use is not None and not lines & set(range(block.lineno, (block.end_lineno or block.lineno) + 1)):
            written = text(entered_streams(block)[-1])
            flaw, advice = FLAW.format(stream=written, name=text(use)), HELP.format(stream=written, line=block.lineno)
            yield context.sites.warning(unordered_side_stream.RULE, use, function.name, advice, flaw=flaw)


def _is_ordered_otherwise(function: ast.AST, nodes: Sequence[ast.AST], block: ast.With) -> bool:
    """Return whether the host may wait before a block, or a function is about captures or threads."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if any(_ORDERING.search(text(call.func)) for call in calls) or _ORDERING.search(getattr(function, "name", "")):
        return True
    before = (last_name(call.func) for call in calls if call.lineno < block.lineno)
    return any(may_wait(name) or name in HOST_READS for name in before)


def _inputs(nodes: Sequence[ast.AST], until: int) -> set[str]:
    """Return the variables with which a function computes on the current stream before a line."""
    inside = {node for block in nodes if isinstance(block, ast.With) and is_on_stream(block) for node in walk(block)}
    before = [node for node in nodes if isinstance(node, ast.Call) and node not in inside and node.lineno < until]
    calls = {call for call in before if _OPERATORS.match(text(call.func))}
    given = (viewed(value, VIEWS) for call in calls for value in call.args)
    found = {value.id for value in given if isinstance(value, ast.Name)}
    made = (node for node in nodes if isinstance(node, ast.Assign) and not calls.isdisjoint(_choices(node.value)))
    return found | stored_names(part for node in made for target in node.targets for part in walk(target))


def _choices(value: ast.expr) -> list[ast.expr]:
    """Return the two values of a conditional expression, or else the expression itself."""
    return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]


def _use(block: ast.With, inputs: Set[str], *, by_name: bool) -> ast.expr | None:
    """Return the first argument of a call in a block that is an input and not created there.

    Args:
        block: the block.
        inputs: the variables that the function uses in operators before it.
        by_name: whether what is named like a parameter or a gradient of a model is an input, too.
    """
    nodes = [node for step in block.body for node in walk(step)]
    stored = _stored_from(nodes)
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        inside = {name for name, position in stored if position <= (call.lineno, call.col_offset)}
        if last_name(call.func) in _FREE | NO_VALUES:
            continue
        for given in arguments_of(call):
            value = viewed(given, VIEWS)
            if names(value) & inside:
                continue
            if (isinstance(value, ast.Name) and value.id in inputs) or (by_name and _is_of_model(value)):
                return value
    return None


def _stored_from(nodes: Sequence[ast.AST]) -> list[tuple[str, tuple[int, int]]]:
    """Return the variables that some statements bind, with the place from which on each is bound."""
    assigned = {
        part: (node.end_lineno or 0, node.end_col_offset or 0)
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        for part in walk(target)
    }
    stored = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [(node.id, assigned.get(node, (node.lineno, node.col_offset))) for node in stored]


def _is_of_model(value: ast.expr) -> bool:
    """Return whether an expression is a parameter or a gradient, judging by its name: `params[name]`, `p.grad`."""
    match value:
        case ast.Attribute(attr=name):
            return bool(words_of(name) & _OF_MODELS) and not _OF_HOST.search(text(value))
        case ast.Name(id=name):
            return bool(words_of(name) & _OF_MODELS) and not _OF_HOST.search(name)
        case _:
            return False
