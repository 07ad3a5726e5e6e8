"""Calls in a file, and the arguments that they pass."""

import ast

from syncheck.lint.nodes import functions_in, nodes_in, once, text
from syncheck.source.expressions import last_name


@once
def calls_by_name(tree: ast.Module) -> dict[str, list[ast.Call]]:
    """Return the calls in a file by the last name of what they call."""
    found: dict[str, list[ast.Call]] = {}
    for node in nodes_in(tree):
        if isinstance(node, ast.Call):
            found.setdefault(last_name(node.func), []).append(node)
    return found


@once
def recording_functions(tree: ast.Module) -> frozenset[str]:
    """Return the names of the functions and methods of a file that record an event."""
    return _functions_that_call(tree, {"record", "record_event"})


@once
def protecting_functions(tree: ast.Module) -> frozenset[str]:
    """Return the names of the functions and methods of a file that only record tensors on streams that they get."""
    others = _functions_that_call(tree, {"wait", "wait_stream", "wait_event", "synchronize", "stream", "StreamContext"})
    return _functions_that_call(tree, {"record_stream"}) - recording_functions(tree) - others


def _functions_that_call(tree: ast.Module, names: set[str]) -> frozenset[str]:
    calls = calls_by_name(tree)
    lines = [call.lineno for name in names for call in calls.get(name, ())]
    return frozenset(
        function.name
        for function in functions_in(tree)
        if any(function.lineno <= line <= (function.end_lineno or function.lineno) for line in lines)
    )


def unpacks(call: ast.Call) -> bool:
    """Return whether a call passes items of a container, as in `f(*args)` or `f(**kwargs)`."""
    return any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords)


def argument_of(call: ast.Call, name: str, index: int | None) -> ast.expr | None:
    """Return the argument that a call passes by name or at an index; None if it is unknown, or if it passes none."""
    if unpacks(call):
        return None
    given = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if given is None and index is not None and 0 <= index < len(call.args):
        given = call.args[index]
    return given


def copies_values(call: ast.Call) -> bool:
    """Return whether a call copies values to a GPU, for which the host waits: `torch.tensor([1], device=device)`.

    Source:
        torch/csrc/utils/tensor_new.cpp, `internal_new_from_data`: the values are copied from pageable memory, without
        `non_blocking`.
    """
    is_tensor = (
        text(call.func) == "torch.tensor" and bool(call.args) and isinstance(call.args[0], ast.List | ast.ListComp)
    )
    devices = [keyword.value for keyword in call.keywords if keyword.arg == "device"]
    return is_tensor and bool(devices) and "cpu" not in text(devices[0])
