"""Times that a program measures: whether the time between two readings of a clock is to include GPU work."""

import ast
import re
from collections.abc import Iterator

from syncheck.findings import Frame
from syncheck.source.words import words_of

_MAX_NAMES = 4
_RANK = re.compile(r"(?:^|[._])(?:global_)?rank(?:\(\))?$")
"""The number of a process among all, `rank` or `dist.get_rank()`. `local_rank` is that on one machine."""
_MAIN = re.compile(r"(?:^|[._])(?:is_)?(?:main|master)(?:_(?:process|rank))?(?:\(\))?$|is_rank_?(?:0|zero)")
"""What is true only in the first process: `is_main_process()`, `master_process`."""
_SECONDS = frozenset({60, 3600})
"""Divisors that convert a time to minutes or hours: such a time is that of a whole run."""
_OF_THE_HOST = frozenset("cpu host python py overhead launch dispatch enqueue submit issue compile".split())
"""Words in the names of times that measure the host's own work on purpose."""
_SENDING = frozenset("launch launching dispatch enqueue submit schedule scheduling".split())
"""Words in messages that say the same."""
_LOADING = frozenset("data dataset dataloader dataloading load loading loader fetch io prepare prep".split())
_MEASURING = frozenset("bench benchmark measure time latency overhead us ms".split())
"""Words in the names of functions that measure times."""
_TIMES = frozenset("time times timer timers meter meters sec secs seconds ms elapsed duration stats".split())
"""Words for times: `data_time`, for example, is the time of the data loader."""
_HOST_TIME = re.compile(r"\b(cpu|host)[- ](side )?(time|latency|overhead)\b", re.IGNORECASE)
"""Messages that say so in several words."""
_PREPARING = re.compile(
    r"(?<![a-z])warm(ing)?[-_ ]?up(?![a-z])|(?<![a-z.])(compil(ing|ation)|compile (time|took))(?![a-z])", re.IGNORECASE
)
"""Names and messages of a time that is measured once, before the work that matters."""
_PREPARED = re.compile(r"(?<![a-z])(after|post|without|excluding|done|complete)(?![a-z])", re.IGNORECASE)
"""Messages and names of another time that mention it."""
_STARTING = re.compile(r"(?:^|\.)start_\w+_times?(?:$|\.)")
"""Names of the time that it takes to start something: `start_prefetch_times`."""
_INEXACT = frozenset("approx approximate approximately rough roughly estimate estimated".split())
"""Words in the names of times that are not meant to be exact."""


def is_measured(frame: Frame, function: ast.AST, *, is_main_process: bool = True) -> bool:
    """Return whether the time between two readings is used, and to include GPU work.

    A time that is only compared is a timeout.

    Args:
        frame: the location of the second reading.
        function: the function that it is in, or the file.
        is_main_process: whether the process takes the branches of the first rank.
    """
    if _measures_launch(getattr(function, "name", "")):
        return False
    parents = {child: node for node in _own_nodes(function) for child in ast.iter_child_nodes(node)}
    reading = next((node for node in parents if _is_call_at(node, frame)), None)
    if not is_main_process:
        left_out = {inner for node in parents if _is_for_main_process(node) for inner in _in_body(node)}
        parents = {child: node for child, node in parents.items() if child not in left_out}
    return reading is None or _is_used(reading, function, parents, _MAX_NAMES)


def _measures_launch(function: str) -> bool:
    """Return whether a function measures the time that the host takes to launch work, judging by its name."""
    words = words_of(function)
    return "launch" in words and bool(words & _MEASURING)


def _is_for_main_process(node: ast.AST) -> bool:
    """Return whether a node is a branch that only the first rank takes, judging by the names in its condition."""
    return isinstance(node, ast.If) and _is_first_rank(node.test)


def _is_first_rank(test: ast.expr) -> bool:
    match test:
        case ast.BoolOp(op=ast.And(), values=parts):
            return any(map(_is_first_rank, parts))
        case ast.Compare(left=rank, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            text = ast.unparse(rank)
            return _RANK.search(text) is not None and "local_rank" not in text
        case ast.Name() | ast.Attribute() | ast.Call():
            return _MAIN.search(ast.unparse(test)) is not None
        case _:
            return False


def _in_body(node: ast.AST) -> Iterator[ast.AST]:
    return (inner for statement in getattr(node, "body", []) for inner in ast.walk(statement))


def function_at(tree: ast.Module, line: int) -> ast.AST:
    """Return the innermost function that contains a line; the tree if there is none."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    around = (node for node in functions if node.lineno <= line <= (node.end_lineno or node.lineno))
    return max(around, key=lambda node: node.lineno, default=tree)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield a function and its nodes, without the nodes of nested functions."""
    waiting = [function]
    while waiting:
        node = waiting.pop()
        yield node
        if node is function or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _is_call_at(node: ast.AST, frame: Frame) -> bool:
    return (
        isinstance(node, ast.Call)
        and (node.lineno, node.end_lineno) == (frame.line, frame.end_line)
        and (node.col_offset + 1 == frame.column)
    )


def _is_kept_unread(node: ast.AST, function: ast.AST) -> bool:
    """Return whether a call appends a value to a list of the function that nothing reads."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
            nodes = list(ast.walk(function))
            if any(isinstance(part, ast.Global | ast.Nonlocal) and name in part.names for part in nodes):
                return False
            made = [part.targets[0] for part in nodes if isinstance(part, ast.Assign) and _makes_list(part)]
            owners = [part.value for part in nodes if isinstance(part, ast.Attribute) and part.attr == "append"]
            used = [part for part in nodes if isinstance(part, ast.Name) and part.id == name]
            return any(part in made for part in used) and all(part in made or part in owners for part in used)
        case _:
            return False


def _makes_list(node: ast.Assign) -> bool:
    """Return whether an assignment binds only one variable to a new, empty list."""
    match node:
        case ast.Assign(targets=[ast.Name()], value=ast.List(elts=[]) | ast.Call(func=ast.Name(id="list"), args=[])):
            return True
        case _:
            return False


def _is_used(node: ast.AST, function: ast.AST, parents: dict[ast.AST, ast.AST], depth: int) -> bool:
    """Return whether a value is used other than in a comparison or a sleep."""
    while isinstance(node, ast.expr | ast.keyword | ast.FormattedValue):
        if isinstance(node, ast.Compare) or (isinstance(node, ast.Call) and _name(node).endswith("sleep")):
            return False
        if _excludes_gpu_work(node) or _is_kept_unread(node, function):
            return False
        node = parents.get(node, function)
    targets = node.targets if isinstance(node, ast.Assign) else []
    kept = [*targets, node.target] if isinstance(node, ast.AugAssign) else targets
    if any(is_host_time(ast.unparse(target)) for target in kept):
        return False
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    if not names or len(names) < len(targets) or not depth:
        return not isinstance(node, ast.If | ast.While | ast.Assert)
    loads = [other for other in parents if isinstance(other, ast.Name) and other.id in names]
    later = _until_rebound([load for load in loads if isinstance(load.ctx, ast.Load)], loads, node)
    if any(_is_of_long_run(parents.get(load)) for load in later):
        return False
    return any(_is_used(load, function, parents, depth - 1) for load in later)


def _until_rebound(loads: list[ast.Name], uses: list[ast.Name], node: ast.AST) -> list[ast.Name]:
    """Return the loads of a variable before it is bound again; all its loads if there are none in between."""
    line = getattr(node, "lineno", 0)
    end = min((use.lineno for use in uses if not isinstance(use.ctx, ast.Load) and use.lineno > line), default=None)
    near = [load for load in loads if line < load.lineno and (end is None or load.lineno < end)]
    return near or loads


def _excludes_gpu_work(node: ast.AST) -> bool:
    """Return whether a time is that of a long run, or goes to a meter or message about the host's own work."""
    if isinstance(node, ast.Call) and _name(node).endswith("timedelta"):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return bool(words_of(str(node.left.value)) & (_SENDING | _INEXACT))
    if isinstance(node, ast.BinOp):
        return _is_of_long_run(node) or (isinstance(node.right, ast.Name) and bool(words_of(node.right.id) & _SENDING))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and is_host_time(ast.unparse(node.func.value))
    ):
        return True
    parts = node.values if isinstance(node, ast.JoinedStr) else node.args if isinstance(node, ast.Call) else []
    texts = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    return any(
        words_of(text) & (_SENDING | _INEXACT)
        or _HOST_TIME.search(text)
        or _is_preparation(text)
        or (text.isidentifier() and is_host_time(text))
        for text in texts
    )


def _is_of_long_run(node: ast.AST | None) -> bool:
    """Return whether an expression converts a time to minutes or hours."""
    divisor = node.right.value if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) else None
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv) and divisor in _SECONDS


def is_host_time(name: str) -> bool:
    """Return whether the name of a time says that it excludes GPU work, is not exact, or is that of a preparation."""
    words = words_of(name)
    is_exact = not words & (_OF_THE_HOST | _INEXACT) and not _is_preparation(name)
    return not is_exact or _STARTING.search(name) is not None or bool(words & _LOADING and words & _TIMES)


def _is_preparation(text: str) -> bool:
    """Return whether a name or a message is that of a warm-up or a compilation."""
    return _PREPARING.search(text) is not None and _PREPARED.search(text) is None


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)
