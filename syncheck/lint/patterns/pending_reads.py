"""Results of asynchronous collectives that a block of code reads before any wait (SYN601).

Like `pending_writes`, the check compares expressions, because the tensors are often unknown, and looks only at the
statements of the same block, up to the first call that may wait.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import HOST_READS, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.pending_writes import STARTED, can_start, first_uses, name_of, results_of
from syncheck.rules import collective_result_before_wait
from syncheck.source.expressions import last_name

_READS = HOST_READS | frozenset(
    "sum mean norm max min any all abs clone float half double argmax add sub mul div".split()
)
"""Methods of a tensor that read its values."""
_HELP = "call `wait()` on the handle of `{collective}` first"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return can_start(source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the reads, as warnings."""
    lines = main_lines_of(context.known)
    for function, _ in functions_with_nodes(context.tree):
        for start, read in first_uses(function, results_of, _reads):
            if not lines & {start.lineno, read.lineno}:
                collective = last_name(start.func)
                facts, advice = {"collective": f"`{collective}`"}, _HELP.format(collective=collective)
                found = context.sites.warning(collective_result_before_wait.RULE, read, function.name, advice, **facts)
                yield replace(found, related=(context.sites.related(start, function.name, STARTED),))


def _reads(statement: ast.stmt, tensors: set[str]) -> bool:
    """Return whether a statement reads the values of one of some tensors. A lambda in it may run later."""
    nodes = walk(statement)
    for node in nodes if not any(isinstance(node, ast.Lambda) for node in nodes) else ():
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _READS and name_of(owner) in tensors:
                return True
            case ast.BinOp(left=left, right=right) if {name_of(left), name_of(right)} & tensors:
                return True
            case _:
                pass
    return False
