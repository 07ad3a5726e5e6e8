"""Parameters of a function whose tensors its callers drop right after the call."""

import ast

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.nodes import Method, functions_in, names, nodes_in, own_attribute, text
from syncheck.lint.temporaries import is_new, kept
from syncheck.source.expressions import last_name

_HOOKS = "saved_tensors_hooks"
_WAITS = frozenset("item cpu tolist numpy wait_stream wait_event elapsed_time query".split())


def packed_argument(function: Method, tree: ast.Module) -> set[str]:
    """Return the parameter of the first of two `saved_tensors_hooks`, which autograd drops; empty for other functions.

    Args:
        function: the function.
        tree: the file.
    """
    given, nodes = _parameters(function)[:1], nodes_in(tree)
    return set(given) if any(_packs(node, function.name, nodes) for node in nodes) else set()


def dropped_arguments(function: Method, tree: ast.Module) -> set[str]:
    """Return the parameters for which a caller in the file passes a result of its own that it neither uses nor keeps.

    Args:
        function: the function.
        tree: the file.
    """
    given = _parameters(function)
    functions = functions_in(tree) if given else []
    if sum(node.name == function.name for node in functions) != 1:
        return set()
    found = (_dropped_by(caller, function.name, given) for caller in functions if caller is not function)
    return {name for dropped in found for name in dropped}


def _parameters(function: Method) -> list[str]:
    arguments = function.args
    given = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return given[1:] if given[:1] == ["self"] else given


def _packs(node: ast.AST, function: str, nodes: list[ast.AST]) -> bool:
    """Return whether a call installs a function as the hook that gets the tensors that autograd saves."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in {_HOOKS, "__init__"} or not node.args:
        return False
    if function not in {text(node.args[0]), own_attribute(node.args[0])}:
        return False
    if last_name(node.func) == _HOOKS:
        return True
    return text(node.func) == "super().__init__" and any(
        isinstance(kind, ast.ClassDef)
        and kind.lineno <= node.lineno <= (kind.end_lineno or 0)
        and _HOOKS in {text(base).rpartition(".")[2] for base in kind.bases}
        for kind in nodes
    )


def _may_wait(called: str) -> bool:
    return called in _WAITS or may_wait(called)


def _dropped_by(caller: Method, function: str, given: list[str]) -> set[str]:
    """Return the parameters of a function for which a caller passes a result of its own that it gives up."""
    nodes = list(own_nodes(caller))
    calls = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == function]
    if not calls:
        return set()
    bindings = sorted((node for node in nodes if isinstance(node, ast.Assign)), key=lambda node: node.lineno)
    alive = kept(nodes)
    dropped: set[str] = set()
    for call in calls:
        before = [each for each in bindings if each.lineno < call.lineno]
        after = [node for node in nodes if getattr(node, "lineno", 0) > (call.end_lineno or call.lineno)]
        if any(isinstance(node, ast.Call) and _may_wait(last_name(node.func)) for node in after):
            continue
        used = {node.id for node in after if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        pairs = [*zip(given, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
        dropped |= {
            name
            for name, value in pairs
            if name in given and is_new(value, before) and not names(value) & (alive | used)
        }
    return dropped
