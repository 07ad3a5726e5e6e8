"""Waits for the stream of an optimizer that come before its step, whose result a side stream then reads (SYN105).

`ema_stream.wait_stream(main)`, then `optimizer.step()`, then the average of the parameters on `ema_stream`: the wait
does not cover the step.
"""

import ast
from collections.abc import Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.locations import main_lines_of
from syncheck.lint.model_parameters import SOURCES
from syncheck.lint.nodes import blocks_in, current_streams, entered_streams, names, text, walk
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_OPTIMIZERS = frozenset({"optimizer", "optim", "opt", "optimizers"})
_FLAW = "`{stream}` waits here for what was launched before `{step}` in line {line}, and then reads its result"
_HELP = "move the wait after line {line}"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "wait_stream(" in source and ".step(" in source and ".parameters(" in source


def findings(tree: ast.Module, sites: SourceSites, known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the waits.

    Args:
        tree: the file.
        sites: the call sites of the file.
        known: the findings on paths through the file. One in the same line is more specific.
    """
    lines = main_lines_of(known)
    for function, nodes in functions_with_nodes(tree):
        derived, current = _of_parameters(nodes), current_streams(nodes)
        for steps in blocks_in(function, nodes) if derived else ():
            for index, wait in enumerate(steps):
                stream, after = _waiter(wait), steps[index + 1 :]
                place = next((at for at, step in enumerate(after) if _is_step(step)), None)
                if not stream or stream in current or place is None or wait.lineno in lines:
                    continue
                waited = [node for step in after for node in walk(step) if _waiter(node) == stream]
                if not waited and any(_reads_on(stream, step, derived) for step in after[place + 1 :]):
                    step = after[place]
                    flaw = _FLAW.format(stream=stream, step=text(step), line=step.lineno)
                    advice = _HELP.format(line=step.lineno)
                    yield sites.warning(unordered_side_stream.RULE, wait, function.name, advice, flaw=flaw)


def _of_parameters(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the variables of a function that hold parameters of a model, or tensors that share their memory."""
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    return {
        target.id
        for node in assigned
        for target in node.targets
        if isinstance(target, ast.Name)
        and any(isinstance(part, ast.Call) and last_name(part.func) in SOURCES for part in walk(node.value))
        and not (isinstance(node.value, ast.Call) and words_of(target.id) & _OPTIMIZERS)
    }


def _waiter(node: ast.AST) -> str:
    """Return the stream that a call, or a statement that consists of it, lets wait; "" for any other node."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=waiter, attr="wait_stream" | "wait_event"))):
            return text(waiter)
        case _:
            return ""


def _is_step(step: ast.stmt) -> bool:
    """Return whether a statement updates the parameters: `optimizer.step()`."""
    match step:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="step"))):
            return bool(words_of(text(owner)) & _OPTIMIZERS)
        case _:
            return False


def _reads_on(stream: str, step: ast.stmt, derived: set[str]) -> bool:
    """Return whether a block on a stream in a statement reads some variables."""
    blocks = [node for node in walk(step) if isinstance(node, ast.With)]
    inside = [block for block in blocks if stream in map(text, entered_streams(block))]
    return any(derived & names(part) for block in inside for part in block.body)
