"""Results of a side stream that the current stream uses before it waits for that stream, or without a wait (SYN105).

A block on a stream computes `latents`. The current stream waits for this stream, but only after it has computed with
`latents`, so the wait comes too late. Or the function creates the stream, makes it wait for the current one, and never
waits for it.
"""

import ast
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.kept_streams import makes_stream
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import (
    HOST_READS,
    NO_VALUES,
    WAITS,
    blocks_on,
    current_streams,
    entered_streams,
    is_current_stream,
    is_on_stream,
    stored_names,
    text,
    waits_for_current,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import unordered_side_stream
from syncheck.source.expressions import has_line, last_name

_KEEPING = frozenset({"record_stream"})
"""Methods that use no values."""
_WITHOUT_WAIT = frozenset({"append", "extend", "wait_stream"})
"""Methods that do not make the host wait."""
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "addmm", "baddbmm", "einsum"})
"""Methods of tensors that read their arguments."""
_LATE = "`{name}` is used here before the current stream waits for `{stream}`, which computes it"
_MOVE = "move the wait in line {join} before this line"
_NEVER = "`{name}` is used here, but nothing waits for `{stream}`, which computes it"
_WAIT = "add `torch.cuda.current_stream().wait_stream({stream})` before line {line}"
_NO_LINE = 1 << 30
_Loop = ast.For | ast.While


class _Join(NamedTuple):
    """A wait of the current stream for a side stream, after a block on it.

    Attributes:
        block: the block.
        stream: the stream, as written.
        call: the wait; None if there is none.
        until: the line of the first wait of any kind.
    """

    block: ast.With
    stream: str
    call: ast.Call | None
    until: int


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ".wait_stream(" in source and "stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the first use of each result, as a warning, since a function may reuse a name for something else."""
    lines = main_lines_of(context.known)
    for function, nodes in functions_with_nodes(context.tree):
        for join in (*_joins(nodes), *_missing(nodes)):
            use = _first_use(join, nodes)
            if use is None or use.lineno in lines or _may_be_complete(join, use, nodes):
                continue
            lines.add(use.lineno)
            flaw, advice = (_LATE, _MOVE) if join.call is not None else (_NEVER, _WAIT)
            words = {"name": use.id, "stream": join.stream, "join": join.until, "line": use.lineno}
            help_text = advice.format(**words)
            yield context.sites.warning(
                unordered_side_stream.RULE, use, function.name, help_text, flaw=flaw.format(**words)
            )


def _joins(nodes: Sequence[ast.AST]) -> Iterator[_Join]:
    """Yield the first wait for the stream of each block that follows it, if nothing else waits in between."""
    waits = [node for node in nodes if isinstance(node, ast.Call) and _may_wait(node)]
    blocks = [node for node in nodes if isinstance(node, ast.With)]
    loops = [node for node in nodes if isinstance(node, _Loop)]
    current = current_streams(nodes)
    for block in blocks:
        later = sorted((wait for wait in waits if wait.lineno > _end(block)), key=lambda wait: wait.lineno)
        around = [loop for loop in loops if has_line(loop, block.lineno)]
        for stream in map(text, entered_streams(block)):
            same = [each for each in blocks if stream in map(text, entered_streams(each))]
            join = next((wait for wait in later if _may_wait_for(wait, stream, same)), None)
            if join is None or not _joins_current(join, stream, current):
                continue
            if all(has_line(loop, join.lineno) for loop in around):
                yield _Join(block, stream, join, join.lineno)


def _missing(nodes: Sequence[ast.AST]) -> Iterator[_Join]:
    """Yield the blocks on streams that a function creates and forks, and to which it refers in no other way."""
    made = [node for node in nodes if isinstance(node, ast.Assign) and makes_stream(node.value)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    waits = [call.lineno for call in calls if last_name(call.func) not in HOST_READS and _may_wait(call)]
    for stream in {text(target) for node in made for target in node.targets if isinstance(target, ast.Name)}:
        forks = [call for call in calls if waits_for_current(call, stream, ())]
        blocks = blocks_on(stream, nodes)
        n_tests = sum(isinstance(node, ast.Compare) and text(node.left) == stream for node in nodes)
        uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == stream]
        n_loads = sum(isinstance(node.ctx, ast.Load) for node in uses)
        if forks and n_loads == len(forks) + len(blocks) + n_tests:
            for block in blocks:
                until = min((line for line in waits if line > _end(block)), default=_NO_LINE)
                yield _Join(block, stream, None, until)


def _may_wait(call: ast.Call) -> bool:
    name = last_name(call.func)
    return name in WAITS | HOST_READS or "sync" in name or "wait" in name or "barrier" in name


def _may_be_complete(join: _Join, use: ast.Name, nodes: Sequence[ast.AST]) -> bool:
    """Return whether the host waits in a block, or other code that runs after it may wait for the device.

    Nothing but a wait for the whole device completes a stream that only this function knows.
    """
    inside = (node for step in join.block.body for node in walk(step))
    if any(isinstance(node, ast.Call) and _may_wait(node) for node in inside):
        return True
    calls = (node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    others = (call for call in calls if last_name(call.func) not in _WITHOUT_WAIT)
    return join.call is not None and any(_end(join.block) < call.lineno < use.lineno for call in others)


def _may_wait_for(wait: ast.Call, stream: str, blocks: Sequence[ast.With]) -> bool:
    """Return whether a wait may be for a stream; `blocks`: the blocks on it. A read waits only for the current one."""
    if last_name(wait.func) in HOST_READS:
        return any(has_line(block, wait.lineno) for block in blocks)
    return last_name(wait.func) != "wait_stream" or stream in map(text, wait.args)


def _joins_current(call: ast.Call, stream: str, current: Set[str]) -> bool:
    """Return whether a call makes the current stream wait for a stream; `current`: the variables that hold it."""
    match call:
        case ast.Call(func=ast.Attribute(value=waiter, attr="wait_stream"), args=[awaited]):
            return (is_current_stream(waiter) or text(waiter) in current) and text(awaited) == stream
        case _:
            return False


def _first_use(join: _Join, nodes: Sequence[ast.AST]) -> ast.Name | None:
    """Return the first use of a result of a block, before the wait and outside code for streams."""
    inside = [node for step in join.block.body for node in walk(step)]
    made = stored_names(inside) | _filled(inside)
    skipped = _skipped(join, nodes)
    first, last = _end(join.block), join.until
    between = [
        node
        for node in nodes
        if isinstance(node, ast.Name) and node.id in made and first < node.lineno < last and node not in skipped
    ]
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    ends = {target: _end(node) for node in assigned for target in node.targets}
    between.sort(key=lambda name: (ends.get(name, name.lineno), not isinstance(name.ctx, ast.Load)))
    seen: set[str] = set()
    for name in between:
        if isinstance(name.ctx, ast.Load) and name.id not in seen:
            return name
        seen.add(name.id)
    return None


def _filled(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the lists all of whose elements a loop computes: `parts` of `for i in range(n): parts[i] = f(i)`."""
    found: set[str] = set()
    for loop in (node for node in nodes if isinstance(node, ast.For)):
        for step in loop.body:
            match step:
                case ast.Assign(
                    targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Name(id=index))], value=ast.Call() as made
                ) if index == text(loop.target) and text(made.func).startswith("torch."):
                    found.add(name)
                case _:
                    pass
    return found


def _skipped(join: _Join, nodes: Sequence[ast.AST]) -> set[ast.AST]:
    """Return the nodes after a block that run instead of it, on another stream or later, or use no values."""
    found: set[ast.AST] = set()
    reading = (node for node in nodes if isinstance(node, ast.Call) and _reads_at_once(node))
    joined = {given for call in reading for given in call.args[:1] if isinstance(given, ast.List | ast.Tuple)}
    for node in (node for node in nodes if node not in joined):
        if isinstance(node, ast.If):
            found |= _instead(node, join.block)
        elif isinstance(node, ast.With) and is_on_stream(node):
            found |= {inner for step in node.body for inner in walk(step)}
        elif isinstance(node, ast.Call) and not _reads_at_once(node):
            found |= {inner for given in (*node.args, *node.keywords) for inner in walk(given)}
        else:
            unused = _without_use(node)
            found |= set(walk(unused)) if unused is not None else set()
    return found


def _reads_at_once(call: ast.Call) -> bool:
    """Return whether a function reads what it is given and does not wait: one of torch that needs more than sizes."""
    name = last_name(call.func)
    return (text(call.func).startswith("torch.") and not name.endswith("_like")) or name in _PRODUCTS


def _instead(branch: ast.If, block: ast.With) -> set[ast.AST]:
    """Return the nodes that run if a block in a branch does not."""
    is_in_body = any(has_line(step, block.lineno) for step in branch.body)
    is_in_other = any(has_line(step, block.lineno) for step in branch.orelse)
    steps = branch.orelse if is_in_body else branch.body if is_in_other else []
    return {node for step in steps for node in walk(step)}


def _without_use(node: ast.AST) -> ast.AST | None:
    """Return the part of a node that uses no values of the variables in it; None if there is none."""
    match node:
        case ast.Lambda() | ast.FunctionDef() | ast.Return() | ast.Yield() | ast.Delete():
            return node
        case ast.Tuple() | ast.List() | ast.Dict() | ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return node
        case ast.Attribute(value=ast.Name() as owner, attr=member) if member in NO_VALUES | _KEEPING:
            return owner
        case ast.Assign(value=ast.Name() as value):
            return value
        case _:
            return None


def _end(block: ast.stmt) -> int:
    return block.end_lineno or block.lineno
