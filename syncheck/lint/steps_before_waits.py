"""Steps of an optimizer before the wait for the collectives that reduce its gradients (SYN601).

`works.append(dist.all_reduce(p.grad, async_op=True))`, then `optimizer.step()`, then `work.wait()` for each handle: the
step reads gradients that are still being reduced. A hook may have started the collectives, and gradients may be clipped
first.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import functions_with_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import Method, blocks_in, classes_of_methods, functions_in, text, walk
from syncheck.lint.pending_writes import can_start, is_start
from syncheck.rules import collective_result_before_wait
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_OPTIMIZERS = frozenset({"optimizer", "optim", "opt", "optimizers", "scaler"})
_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_"})
_STARTED = "the collective is started here"
_HELP = "move the wait for the handles in line {line} before this"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    is_used = ".step(" in source or "clip_grad" in source
    return is_used and ".grad" in source and ".wait()" in source and can_start(source)


def findings(tree: ast.Module, sites: SourceSites, known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the steps.

    Args:
        tree: the file.
        sites: the call sites of the file.
        known: the findings on paths through the file. One in the same line is more specific.
    """
    lines = main_lines_of(known)
    of_objects = _of_objects(tree)
    for function, nodes in functions_with_nodes(tree):
        started = of_objects | {handles: (start, function) for handles, start in _started(nodes)}
        bases = getattr(classes_of_methods(tree).get(function), "bases", [])
        is_optimizer = any("optim" in text(base).lower() for base in bases)
        for steps in blocks_in(function, nodes) if started else ():
            for index, step in enumerate(steps):
                if step.lineno in lines or not _is_step(step, is_optimizer=is_optimizer):
                    continue
                for handles, (start, starter) in started.items():
                    wait = next((later for later in steps[index + 1 :] if _waits_for(later, handles, tree)), None)
                    if wait is not None and not _is_awaited_before(step, handles, nodes, tree):
                        facts = {"collective": f"`{last_name(start.func)}`"}
                        advice = _HELP.format(line=wait.lineno)
                        found = sites.warning(collective_result_before_wait.RULE, step, function.name, advice, **facts)
                        began = replace(sites.location(sites.id_of(start, starter.name)), message=_STARTED)
                        yield replace(found, related=(began,))
                        break


def _of_objects(tree: ast.Module) -> dict[str, tuple[ast.Call, Method]]:
    """Return the attributes of objects that hold such handles, each with a collective and the method that starts it."""
    found: dict[str, tuple[ast.Call, Method]] = {}
    for function, nodes in functions_with_nodes(tree):
        found |= {handles: (start, function) for handles, start in _started(nodes) if handles.startswith("self.")}
    return found


def _started(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.Call]]:
    """Yield where a function keeps the handles of collectives that reduce gradients, each with a collective."""
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    gradients = {text(target) for node in assigned for target in node.targets if _mentions_gradient(node.value)}
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
        if isinstance(node, ast.Call) and is_start(node):
            given = [*node.args, *(word.value for word in node.keywords)]
            if any(_mentions_gradient(each) or text(each) in gradients for each in given):
                return node
        if isinstance(node, ast.Name) and node.id in starts:
            return starts[node.id]
    return None


def _mentions_gradient(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in walk(value))


def _is_step(step: ast.stmt, *, is_optimizer: bool) -> bool:
    """Return whether a statement updates the parameters or clips gradients; `is_optimizer`: it is in an optimizer."""
    match step:
        case ast.Expr(value=ast.Call(func=func)) | ast.Assign(value=ast.Call(func=func)) if (
            last_name(func) in _CLIPPING
        ):
            return True
        case (
            ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="step")))
            | ast.Assign(value=ast.Call(func=ast.Attribute(value=owner, attr="step")))
        ):
            is_of_base = isinstance(owner, ast.Call) and text(owner.func) == "super" and is_optimizer
            return is_of_base or bool(words_of(last_name(owner)) & _OPTIMIZERS)
        case _:
            return False


def _waits_for(step: ast.stmt, handles: str, tree: ast.Module) -> bool:
    """Return whether a statement waits for some handles, itself or in a function of the file."""
    nodes = walk(step)
    if _mentions(nodes, handles) and any(map(_is_wait, nodes)):
        return True
    return not _waiting_for(handles, tree).isdisjoint(_called(nodes))


def _waiting_for(handles: str, tree: ast.Module) -> frozenset[str]:
    """Return the functions in a file that mention the attribute that some handles are kept in, and wait."""
    functions = functions_in(tree) if handles.startswith("self.") else []
    bodies = ((function.name, walk(function)) for function in functions)
    return frozenset(name for name, nodes in bodies if _mentions(nodes, handles) and any(map(_is_wait, nodes)))


def _called(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names of the methods that some nodes call, of any object."""
    functions = (node.func for node in nodes if isinstance(node, ast.Call))
    return {function.attr for function in functions if isinstance(function, ast.Attribute)}


def _is_wait(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "wait"


def _mentions(nodes: Sequence[ast.AST], handles: str) -> bool:
    return any(isinstance(node, ast.Name | ast.Attribute) and text(node) == handles for node in nodes)


def _is_awaited_before(step: ast.stmt, handles: str, nodes: Sequence[ast.AST], tree: ast.Module) -> bool:
    """Return whether a function may wait for some handles before a step, or pass them on."""
    waiting = _waiting_for(handles, tree)
    for call in (node for node in nodes if isinstance(node, ast.Call) and node.lineno < step.lineno):
        given = [part for each in (*call.args, *(word.value for word in call.keywords)) for part in walk(each)]
        if may_wait(last_name(call.func)) or last_name(call.func) in waiting or _mentions(given, handles):
            return True
    return False
