"""Mistakes that show in the shape of the source, and need not be followed."""

import ast
import itertools
import re
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import Places
from syncheck.rules import device_wide_sync, empty_cache_in_loop, host_sync_in_loop, rank_dependent_collective
from syncheck.rules.model import Rule
from syncheck.semantics.collectives import FUNCTIONS

RULES = (host_sync_in_loop.RULE, empty_cache_in_loop.RULE, rank_dependent_collective.RULE, device_wide_sync.RULE)
WORDS = ("empty_cache", "elapsed_time", ".backward(", "get_rank", "rank ==", "is_main_process")
"""Words that one of these rules begins with; `prefilter.py` lets files with them through."""

_RANK = re.compile(r"(^|[._])(rank|get_rank\([^)]*\))$")
_MAIN = re.compile(r"(^|[._])is_(main|master|world|rank)_(process|zero|rank)(_zero)?(\(\))?$")
_READS = frozenset({"item", "tolist", "cpu"})
_BY_ALL = frozenset(FUNCTIONS) - {"barrier", "isend", "irecv"}


def findings(tree: ast.Module, places: Places) -> Iterator[Finding]:
    """Yield what the shape of a file shows."""
    distributed = _names_of_distributed(tree)
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            continue
        name = "" if isinstance(scope, ast.Module) else scope.name
        nodes = list(own_nodes(scope))
        yield from _of_some_ranks(nodes, distributed, places, name)
        for node in nodes:
            if isinstance(node, ast.For | ast.While):
                yield from _in_every_turn(node, places, name)
                yield from _after_an_event(node, places, name)


def _names_of_distributed(tree: ast.Module) -> dict[str, str]:
    """Return what the file calls torch.distributed and its collectives: name -> full name."""
    found = {"torch.distributed": "torch.distributed"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.asname: a.name for a in node.names if a.asname and a.name == "torch.distributed"}
        elif isinstance(node, ast.ImportFrom) and node.module in {"torch", "torch.distributed"}:
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def _collective(node: ast.AST, distributed: dict[str, str]) -> str:
    """Return the name of the collective that a call is, over all ranks; "" if it is none."""
    if not isinstance(node, ast.Call) or any(keyword.arg == "group" for keyword in node.keywords):
        return ""
    head, _, name = ast.unparse(node.func).rpartition(".")
    path = f"{distributed.get(head, '')}.{name}" if head else distributed.get(name, "")
    return name if path == f"torch.distributed.{name}" and name in _BY_ALL else ""


def _of_some_ranks(
    nodes: list[ast.AST], distributed: dict[str, str], places: Places, function: str
) -> Iterator[Finding]:
    calls = [name for node in nodes if (name := _collective(node, distributed))]
    for node in nodes:
        if not isinstance(node, ast.If) or node.orelse or not _is_about_rank(node.test):
            continue
        for inner in (inner for statement in node.body for inner in (statement, *own_nodes(statement))):
            name = _collective(inner, distributed)
            if name and calls.count(name) == 1 and not _ends_early(node):
                fact = f"`{name}`"
                yield _finding(rank_dependent_collective.RULE, inner, places, function, collective=fact)


def _is_about_rank(test: ast.expr) -> bool:
    if isinstance(test, ast.Compare):
        is_equal = len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
        return is_equal and isinstance(test.comparators[0], ast.Constant) and bool(_RANK.search(ast.unparse(test.left)))
    return isinstance(test, ast.Name | ast.Attribute | ast.Call) and bool(_MAIN.search(ast.unparse(test)))


def _ends_early(node: ast.If) -> bool:
    return isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _in_every_turn(loop: ast.For | ast.While, places: Places, function: str) -> Iterator[Finding]:
    """Yield what a training loop does on every iteration, whatever happens."""
    backward = {
        ast.unparse(node.func.value)
        for node in own_nodes(loop)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
    }
    if not backward:
        return
    for call in _always_made(loop.body):
        text = ast.unparse(call)
        method = call.func if isinstance(call.func, ast.Attribute) else None
        if method is not None and method.attr in _READS and ast.unparse(method.value) in backward:
            yield _finding(host_sync_in_loop.RULE, call, places, function, call=f"`{text}`")
        elif re.fullmatch(r"(torch\.)?(cuda|xpu|npu|accelerator)\.empty_cache\(\)", text):
            consequence = "what it gives back is asked of the driver again in the next one, which waits for the device"
            yield _finding(empty_cache_in_loop.RULE, call, places, function, consequence=consequence)


def _after_an_event(loop: ast.For | ast.While, places: Places, function: str) -> Iterator[Finding]:
    """Yield the waits for the whole device that stand directly after the record of an event that is then timed."""
    timed = {
        ast.unparse(part)
        for node in own_nodes(loop)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "elapsed_time"
        for part in (node.func.value, *node.args)
    }
    bodies = [loop.body, *(node.body for node in own_nodes(loop) if isinstance(node, ast.With | ast.If))]
    for body in bodies if timed else ():
        for first, second in itertools.pairwise(body):
            event = re.fullmatch(r"(.+)\.record\([^)]*\)", ast.unparse(first))
            waits = re.fullmatch(r"(torch\.)?(cuda|xpu|npu|accelerator)\.synchronize\(\)", ast.unparse(second))
            if event is not None and waits is not None and event[1] in timed:
                yield _finding(
                    device_wide_sync.RULE, second, places, function, alternative=f"`{event[1]}.synchronize()`"
                )


def _always_made(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls that are made on every iteration."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _always_made(statement.body)
        elif isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign):
            yield from (node for node in own_nodes(statement) if isinstance(node, ast.Call))


def _finding(rule: Rule, node: ast.AST, places: Places, function: str, **facts: str) -> Finding:
    return Finding.of(rule, places.place(places.id_of(node, function)), **facts)
