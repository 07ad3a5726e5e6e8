"""Waits for the stream of an optimizer that come before its step, whose result a side stream then reads (SYN105).

`ema_stream.wait_stream(main)`, then `optimizer.step()`, then the average of the parameters on `ema_stream`: the wait
does not cover the step.
"""

import ast
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.locations import main_lines_of
from syncheck.lint.model_parameters import kept_parameters, parameters_in
from syncheck.lint.nodes import blocks_in, blocks_on, classes_of_methods, current_streams, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_OPTIMIZERS = frozenset({"optimizer", "optim", "opt", "optimizers", "scaler"})
_HOST_READS = frozenset({"item", "tolist", "cpu"})
_FLAW = "this wait comes before `{step}` in line {line}, whose result `{stream}` reads afterwards"
_HELP = "move the wait after line {line}"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "wait_stream(" in source and ".step(" in source and ".parameters(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the waits."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        kind = classes_of_methods(context.tree).get(function)
        kept = kept_parameters(kind) if kind is not None else frozenset()
        weights, current = parameters_in(function, kept) | {f"self.{name}" for name in kept}, current_streams(nodes)
        for steps in blocks_in(function, nodes) if weights else ():
            for index, wait in enumerate(steps):
                stream, after = _waiter(wait), steps[index + 1 :]
                place = next((at for at, step in enumerate(after) if _is_step(step)), None)
                if not stream or stream in current or place is None or wait.lineno in lines:
                    continue
                later = after[place + 1 :]
                is_ordered = any(_may_order(node) for step in later for node in walk(step))
                if not is_ordered and any(_block_reads(stream, step, weights) for step in later):
                    step = after[place]
                    flaw = _FLAW.format(stream=stream, step=text(step), line=step.lineno)
                    advice = _HELP.format(line=step.lineno)
                    yield context.sites.warning(unordered_side_stream.RULE, wait, function.name, advice, flaw=flaw)


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


def _may_order(node: ast.AST) -> bool:
    """Return whether a call may order streams, or let the host wait."""
    return isinstance(node, ast.Call) and (may_wait(last_name(node.func)) or last_name(node.func) in _HOST_READS)


def _block_reads(stream: str, step: ast.stmt, weights: set[str]) -> bool:
    """Return whether a block on a stream in a statement mentions some variables or attributes."""
    parts = (part for block in blocks_on(stream, walk(step)) for each in block.body for part in walk(each))
    return any(isinstance(part, ast.Name | ast.Attribute) and text(part) in weights for part in parts)
