"""Tensors that are recorded on the stream that allocates them, which protects nothing (SYN201).

In a block on a side stream, `torch.cuda.current_stream()` is the side stream. A tensor that is made there belongs to it
already, so recording the tensor on that stream has no effect on the streams that use it later.
"""

import ast
import re
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import children, entered_stream, is_current_stream, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.recorded_streams import WORD, on_wrong_stream
from syncheck.rules.model import Family
from syncheck.source.expressions import last_name

Function = ast.FunctionDef | ast.AsyncFunctionDef

_CURRENT = "current_stream"
_MOVES = frozenset({"to", "cuda"})
_FACTORIES = frozenset({"empty", "empty_like", "zeros", "zeros_like"})
_ENTERS = re.compile(r"\b(?:stream|StreamContext)\(")
_MAX_CALLERS = 3
"""Maximum number of calls between a block and the function that records a tensor."""
_HELP = "pass the stream that uses `{tensor}`: in a block on another stream, `current_stream()` is the latter"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return f".{WORD}(" in source and f"{_CURRENT}(" in source and "tream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the tensors that a block on a side stream makes and records on that same stream."""
    lines = lines_of(context.known, {Family.LIFETIME})
    file = _File(context.tree)
    for function in file.functions:
        for call, tensor, stream in _own_records(function):
            blocks = file.blocks_around(call, function)
            if not blocks or call.lineno in lines or any(map(file.may_wait, blocks)):
                continue
            if file.in_block(call) is not file.in_block(stream):
                continue  # the stream is the one that was current before the block
            advice = _HELP.format(tensor=tensor)
            yield on_wrong_stream(call, tensor, "the stream that uses it", function, context.sites, advice)


def _own_records(function: Function) -> Iterator[tuple[ast.Call, str, ast.expr]]:
    """Yield the calls that record a tensor of a function on the current stream, with the tensor and that stream."""
    nodes = list(own_nodes(function))
    assigned = [node for node in nodes if isinstance(node, ast.Assign) and len(node.targets) == 1]
    made = {text(node.targets[0]): node for node in assigned if _makes(node.value)}
    streams = {text(node.targets[0]): node.value for node in assigned if is_current_stream(node.value)}
    records = [
        (node, text(node.func.value), node.args[0])
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == WORD
        and len(node.args) == 1
    ]
    for call, tensor, given in records:
        stream = given if is_current_stream(given) else streams.get(text(given))
        n_bound = sum(text(node.targets[0]) == tensor for node in assigned)
        n_records = sum(other == tensor for _, other, _ in records)
        if stream is not None and n_bound == n_records == 1 and tensor in made and made[tensor].lineno < call.lineno:
            yield call, tensor, stream


def _makes(value: ast.expr) -> bool:
    """Return whether an expression allocates memory on a GPU: a non-blocking copy, or a new tensor there."""
    if not isinstance(value, ast.Call):
        return False
    words = {word.arg for word in value.keywords}
    name = last_name(value.func)
    return (name in _MOVES and "non_blocking" in words) or (name in _FACTORIES and "device" in words)


class _File:
    """The functions of a file, and the blocks in which they are called.

    Attributes:
        functions: all functions, including methods and nested functions.

    Args:
        tree: the file.
    """

    def __init__(self, tree: ast.Module) -> None:
        nodes = walk(tree)
        self.functions = [node for node in nodes if isinstance(node, Function)]
        self._parents = {child: node for node in nodes for child in children(node)}
        self._uses: dict[str, list[ast.expr]] = {}
        for node in nodes:
            if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
                self._uses.setdefault(last_name(node), []).append(node)
        self._names = [function.name for function in self.functions]
        self._waiting = {
            last_name(node.func.value)
            for node in nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"wait_stream", "wait_event"}
        } | {last_name(node.args[0]) for node in nodes if _is_wait_on(node) and isinstance(node, ast.Call)}

    def may_wait(self, stream: ast.expr) -> bool:
        """Return whether a stream waits for others anywhere in the file, by its name."""
        return last_name(stream) in self._waiting

    def in_block(self, node: ast.AST) -> ast.With | None:
        """Return the innermost block on a side stream, in the same function, that contains a node."""
        inner = node
        while inner in self._parents and not isinstance(inner, Function | ast.Lambda):
            inner, child = self._parents[inner], inner
            if isinstance(inner, ast.With) and child in inner.body and self._entered(inner) is not None:
                return inner
        return None

    def blocks_around(self, node: ast.AST, function: Function, depth: int = _MAX_CALLERS) -> list[ast.expr]:
        """Return the streams that may be current at a node; empty if it may also run outside blocks on side streams."""
        block = self.in_block(node)
        if block is not None:
            stream = self._entered(block)
            return [stream] if stream is not None else []
        found: list[ast.expr] = []
        uses = self._uses.get(function.name, []) if depth and self._names.count(function.name) == 1 else []
        for use in uses:
            caller = self._function_around(use)
            parent = self._parents.get(use)
            is_called = isinstance(parent, ast.Call) and parent.func is use
            around = self.blocks_around(use, caller, depth - 1) if is_called and caller is not None else []
            if not around or caller is function:
                return []
            found += around
        return found

    def _function_around(self, node: ast.AST) -> Function | None:
        while node in self._parents and not isinstance(node, Function | ast.Lambda):
            node = self._parents[node]
        return node if isinstance(node, Function) else None

    def _entered(self, block: ast.With) -> ast.expr | None:
        """Return the stream that a block makes current, at least if there is one; None if it is the current one."""
        for item in block.items:
            context: ast.expr | None = item.context_expr
            if isinstance(context, ast.Name):
                context = self._bound(context.id, block)
            if isinstance(context, ast.IfExp):
                context = context.body if _ENTERS.search(text(context.body)) else context.orelse
            stream = entered_stream(context)
            if stream is not None:
                is_side = isinstance(stream, ast.Name | ast.Attribute) and not _is_main(stream)
                return stream if is_side else None
        return None

    def _bound(self, name: str, block: ast.With) -> ast.expr | None:
        """Return the only value that the function around a block assigns to a variable."""
        function = self._function_around(block)
        values = [
            node.value
            for node in (own_nodes(function) if function is not None else ())
            if isinstance(node, ast.Assign) and any(text(target) == name for target in node.targets)
        ]
        return values[0] if len(values) == 1 else None


def _is_main(stream: ast.expr) -> bool:
    """Return whether a stream is the current or the default one, judging by its name."""
    return bool(re.search(r"current|default|main|compute", text(stream)))


def _is_wait_on(node: ast.AST) -> bool:
    """Return whether a call makes the stream that it gets wait: `event.wait(stream)`."""
    return isinstance(node, ast.Call) and last_name(node.func) == "wait" and len(node.args) == 1
