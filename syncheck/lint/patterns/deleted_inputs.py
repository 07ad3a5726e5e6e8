"""Tensors that a function deletes while a side stream, which nothing has waited for, may still read them (SYN201).

The memory belongs to the current stream, which may reuse it at once.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from syncheck.findings import Finding
from syncheck.lint.interp.functions import block_nodes, functions_with_nodes
from syncheck.lint.interp.unknown import makes_object, may_wait
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import HOST_READS, blocks_in, bound_names, entered_streams, stored_names, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import missing_record_stream
from syncheck.source.expressions import last_name

_HELP = "call `{tensor}.record_stream({stream})` before the `del`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "stream(" in source and "del " in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the deletions, as warnings, since the work may not use the tensor itself."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        recorded = {_recorded(node) for node in nodes}
        for steps in blocks_in(function, nodes):
            for index, block in enumerate(steps):
                streams = entered_streams(block) if isinstance(block, ast.With) else []
                if not isinstance(block, ast.With) or len(streams) != 1 or lines & {block.lineno, *_lines(block)}:
                    continue
                before = _made(node for step in steps[:index] for node in walk(step))
                given = (_given(block) & before) - recorded
                for node, name in _deleted(steps[index + 1 :], given):
                    stream = text(streams[0])
                    facts = {"tensor": f"`{name}`", "user": f"stream `{stream}`", "verb": "reading"}
                    advice = _HELP.format(tensor=name, stream=stream)
                    yield context.sites.warning(missing_record_stream.RULE, node, function.name, advice, **facts)


def _lines(block: ast.With) -> range:
    return range(block.lineno, (block.end_lineno or block.lineno) + 1)


def _made(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the variables that some nodes bind, without those bound to new objects of a class, such as graphs."""
    nodes = list(nodes)
    objects = (node for node in nodes if isinstance(node, ast.Assign) and makes_object(node.value))
    return stored_names(nodes) - {name for node in objects for name in bound_names(node)}


def _recorded(node: ast.AST) -> str:
    """Return the variable that a call protects with `record_stream`; "" for any other node."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="record_stream")):
            return name
        case _:
            return ""


def _given(block: ast.With) -> set[str]:
    """Return the variables from which calls in a block compute something, without those that it binds itself.

    A call whose result is dropped may keep its arguments. There are none if the block may wait.
    """
    nodes = block_nodes(block)
    if any(isinstance(node, ast.Call) and _waits(node) for node in nodes):
        return set()
    values = [node.value for node in nodes if isinstance(node, ast.Assign)]
    calls = [node for value in values for node in walk(value) if isinstance(node, ast.Call)]
    given = {value.id for call in calls for value in call.args if isinstance(value, ast.Name)}
    return given - stored_names(nodes)


def _deleted(steps: Sequence[ast.stmt], given: set[str]) -> Iterator[tuple[ast.Delete, str]]:
    """Yield the deletions of variables in statements before the first that may wait or branch."""
    for step in takewhile(lambda step: not _may_wait(step), steps):
        if isinstance(step, ast.Delete):
            yield from (
                (step, target.id) for target in step.targets if isinstance(target, ast.Name) and target.id in given
            )


def _may_wait(step: ast.stmt) -> bool:
    return any(isinstance(node, ast.Call) and _waits(node) for node in walk(step))


def _waits(call: ast.Call) -> bool:
    return last_name(call.func) in HOST_READS or may_wait(last_name(call.func))
