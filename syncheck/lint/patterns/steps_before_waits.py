"""Steps of an optimizer before the wait for the collectives that reduce its gradients (SYN601).

`works.append(dist.all_reduce(p.grad, async_op=True))`, then `optimizer.step()`, then `work.wait()` for each handle: the
step reads gradients that are still being reduced. A hook may have started the collectives, and gradients may be clipped
first.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import Method, blocks_in, classes_of_methods, functions_in, text, viewed, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.pending_writes import STARTED, can_start, is_start
from syncheck.rules import collective_result_before_wait
from syncheck.source.expressions import arguments_of, has_line, last_name
from syncheck.source.words import words_of

_OPTIMIZERS = frozenset({"optimizer", "optim", "opt", "optimizers", "scaler"})
_SCHEDULERS = frozenset({"scheduler", "sched", "schedule", "lr"})
_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_"})
_VIEWS = frozenset({"view", "reshape", "flatten", "detach", "contiguous", "view_as"})
_HELP = "move the wait for the handles in line {line} before this"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    is_used = ".step(" in source or "clip_grad" in source
    return is_used and ".grad" in source and ".wait()" in source and can_start(source)


class _Started(NamedTuple):
    """Collectives that reduce gradients.

    Attributes:
        handles: the variable or attribute with their handles, as written.
        start: one of them.
        starter: the function that starts them.
        waiting: the functions of the file that wait for handles in an attribute of that name.
        is_here: whether the handles are those of the object, or the variable, of the function that is looked at.
    """

    handles: str
    start: ast.Call
    starter: Method
    waiting: frozenset[str]
    is_here: bool = True


def findings(context: Context) -> Iterator[Finding]:
    """Yield the steps."""
    lines = main_lines_of(context.known)
    of_objects = list(_of_objects(context.tree))
    for function, nodes in functions_with_nodes(context.tree):
        local = [_Started(*each, function, frozenset()) for each in _started(nodes) if not each[0].startswith("self.")]
        kept = [each._replace(is_here=_is_of_same_object(function, each.starter, context.tree)) for each in of_objects]
        started = [*local, *kept]
        owners = {_stepped(node) for node in nodes if isinstance(node, ast.Call)} - {""}
        if not started or len(owners) > 1:  # one of several optimizers may have other gradients
            continue
        for steps in blocks_in(function, nodes):
            for index, step in enumerate(steps):
                if step.lineno in lines or not _reads_gradients(step, function, context.tree):
                    continue
                for each in (each for each in started if not _is_of_others(step, each)):
                    wait = _wait_after(each, steps[index + 1 :])
                    if wait is not None and _is_before(each, step, function) and not _may_wait(each, step, nodes):
                        yield _finding(each, step, wait, function, context.sites)
                        break


def _finding(each: _Started, step: ast.stmt, wait: ast.stmt, function: Method, sites: SourceSites) -> Finding:
    facts = {"collective": f"`{last_name(each.start.func)}`"}
    advice = _HELP.format(line=wait.lineno)
    found = sites.warning(collective_result_before_wait.RULE, step, function.name, advice, **facts)
    began = sites.related(each.start, each.starter.name, STARTED)
    return replace(found, related=(began,))


def _of_objects(tree: ast.Module) -> Iterator[_Started]:
    """Yield the collectives whose handles objects keep."""
    for function, nodes in functions_with_nodes(tree):
        for handles, start in _started(nodes):
            if handles.startswith("self."):
                yield _Started(handles, start, function, _waiting_for(handles, tree))


def _waiting_for(handles: str, tree: ast.Module) -> frozenset[str]:
    """Return the functions in a file that mention the attribute that some handles are kept in, and wait."""
    bodies = ((function.name, walk(function)) for function in functions_in(tree) if function.name != "step")
    return frozenset(name for name, nodes in bodies if _mentions(nodes, handles) and any(map(_is_wait, nodes)))


def _is_of_same_object(function: Method, starter: Method, tree: ast.Module) -> bool:
    """Return whether two methods belong to one class, or the first one to a class derived from that of the other."""
    kinds = classes_of_methods(tree)
    kind, other = kinds.get(function), kinds.get(starter)
    return kind is not None and other is not None and (kind is other or other.name in map(last_name, kind.bases))


def _started(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.Call]]:
    """Yield where a function keeps the handles of collectives that reduce gradients, each with a collective."""
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    gradients = {text(target) for node in assigned for target in node.targets if _is_gradient(node.value, set())}
    starts: dict[str, ast.Call] = {}
    for step in assigned:
        start = _start_in(step.value, gradients, starts)
        if start is not None:
            for target in step.targets:
                kept = target.value if isinstance(target, ast.Subscript) else target
                starts[text(kept)] = start
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=handles, attr="append" | "add" | "put"), args=[given]):
                start = _start_in(given, gradients, starts)
                if start is not None:
                    starts[text(handles)] = start
            case _:
                pass
    yield from starts.items()


def _start_in(value: ast.expr, gradients: set[str], starts: dict[str, ast.Call]) -> ast.Call | None:
    """Return the collective that reduces gradients and whose handle is a value, or a part of it; None if none is."""
    for node in walk(value):
        starts_now = node if isinstance(node, ast.Call) and is_start(node) else None
        if starts_now is not None and any(_is_gradient(each, gradients) for each in arguments_of(starts_now)):
            return starts_now
        if isinstance(node, ast.Name) and node.id in starts:
            return starts[node.id]
    return None


def _is_gradient(value: ast.expr, gradients: set[str]) -> bool:
    """Return whether an expression is a gradient, or a view of one; `gradients`: variables that are gradients."""
    tensor = viewed(value, _VIEWS)
    if isinstance(tensor, ast.Attribute) and tensor.attr == "data":
        tensor = tensor.value
    return text(tensor) in gradients or (isinstance(tensor, ast.Attribute) and tensor.attr == "grad")


def _stepped(call: ast.Call) -> str:
    """Return the optimizer whose `step` a call is, as written; "" if it is another call."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "step" else None
    words = words_of(last_name(owner)) if owner is not None else set()
    return text(owner) if owner is not None and words & _OPTIMIZERS and not words & _SCHEDULERS else ""


def _reads_gradients(step: ast.stmt, function: Method, tree: ast.Module) -> bool:
    """Return whether a statement updates the parameters, or clips their gradients."""
    match step:
        case ast.Expr(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call):
            is_of_base = text(call.func) == "super().step" and _is_in_optimizer(function, tree)
            return is_of_base or bool(_stepped(call)) or last_name(call.func) in _CLIPPING
        case _:
            return False


def _is_of_others(step: ast.stmt, each: _Started) -> bool:
    """Return whether a statement clips a group of parameters other than the one whose gradients a loop reduces."""
    call = step.value if isinstance(step, ast.Expr | ast.Assign) else None
    if not isinstance(call, ast.Call) or last_name(call.func) not in _CLIPPING or not call.args:
        return False
    group = last_name(call.args[0].func if isinstance(call.args[0], ast.Call) else call.args[0])
    loops = (node for node in walk(each.starter) if isinstance(node, ast.For) and has_line(node, each.start.lineno))
    reduced = {last_name(part) for loop in loops for part in walk(loop.iter) if isinstance(part, ast.expr)}
    return bool(group and reduced) and group != "parameters" and group not in reduced


def _is_in_optimizer(function: Method, tree: ast.Module) -> bool:
    kind = classes_of_methods(tree).get(function)
    return kind is not None and any("optim" in text(base).lower() for base in kind.bases)


def _wait_after(each: _Started, after: Sequence[ast.stmt]) -> ast.stmt | None:
    """Return the first of some statements that waits for some handles; None if one of them starts others before."""
    for step in after:
        nodes = walk(step)
        if each.start in nodes or _binds(nodes, each.handles):
            return None
        is_own = each.is_here and _mentions(nodes, each.handles) and any(map(_is_wait, nodes))
        if is_own or not each.waiting.isdisjoint(_called(nodes)):
            return step
    return None


def _is_before(each: _Started, step: ast.stmt, function: Method) -> bool:
    """Return whether collectives are started before a statement, as far as the function shows it."""
    return each.starter is not function or each.start.lineno < step.lineno


def _may_wait(each: _Started, step: ast.stmt, nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function may wait for some handles before a step, or pass them on."""
    for call in (node for node in nodes if isinstance(node, ast.Call) and node.lineno < step.lineno):
        given = [part for value in arguments_of(call) for part in walk(value)]
        if may_wait(last_name(call.func)) or last_name(call.func) in each.waiting or _mentions(given, each.handles):
            return True
    return False


def _called(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names of the methods that some nodes call, of any object."""
    functions = (node.func for node in nodes if isinstance(node, ast.Call))
    return {function.attr for function in functions if isinstance(function, ast.Attribute)}


def _is_wait(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "wait"


def _mentions(nodes: Sequence[ast.AST], handles: str) -> bool:
    return any(isinstance(node, ast.Name | ast.Attribute) and text(node) == handles for node in nodes)


def _binds(nodes: Sequence[ast.AST], handles: str) -> bool:
    stored = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store))
    return any(text(node) == handles for node in stored)
