"""torch's control flow operators: `torch.cond`, `while_loop`, `map`, `scan`.

torch compiles them, even in programs that compile nothing else, and runs the result. Dispatch modes prevent this. Here,
branches and loops are executed in Python instead, so that each operator is seen and has its gradient. A transformation
of `torch.func`, or a tracer, must see the operator as a whole; how to handle those is up to the caller.

Source:
    torch/_higher_order_ops: cond.py, while_loop.py, map.py, scan.py; utils.py, `_hop_compile_and_call`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from inspect import getclosurevars
from types import FunctionType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map, tree_unflatten

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import is_transformed


def install_control_flow(
    compile_function: Callable[..., Any],
    when_transformed: Callable[[tuple[Any, ...]], AbstractContextManager[None]],
    patches: Patches,
) -> None:
    """Run branches and loops instead of compiling them.

    Args:
        compile_function: torch's original `torch.compile`, for operators that are traced or transformed.
        when_transformed: takes the arguments of an operator that is traced or transformed, and returns a context
            manager to run it in.
        patches: registers the replacement.
    """
    original = torch.compile

    @wraps(original)
    def compile_or_run(model: Any = None, **kwargs: Any) -> Any:
        if isinstance(model, FunctionType) and model.__module__.startswith("torch._higher_order_ops."):
            return _in_python(model, compile_function(model, **kwargs), when_transformed)
        return original(model, **kwargs)

    patches.set(torch, "compile", compile_or_run)


def _in_python(
    function: FunctionType,
    compiled: Callable[..., Any],
    when_transformed: Callable[[tuple[Any, ...]], AbstractContextManager[None]],
) -> Callable[..., Any]:
    """Return the replacement of a torch function that contains a branch or a loop."""
    in_python = _IN_PYTHON.get(function.__name__)

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if is_transformed(tree_leaves((args, kwargs))):
            with when_transformed(args):
                return compiled(*args, **kwargs)
        return function(*args, **kwargs) if in_python is None else in_python(function, *args)

    return run


def _cond(_: Any, predicate: Any, if_true: Any, if_false: Any, operands: Any) -> Any:
    return (if_true if predicate else if_false)(*operands)


def _while_loop(_: Any, condition: Any, body: Any, carried: tuple[Any, ...], additional: tuple[Any, ...]) -> Any:
    if not condition(*carried, *additional):
        unchanged = [value.clone() if isinstance(value, torch.Tensor) else value for value in carried]
        return tree_unflatten(unchanged, getclosurevars(condition).nonlocals["in_spec"])[0]
    while True:
        carried = body(*carried, *additional)
        if not condition(*tree_leaves(carried), *additional):
            return carried
        carried = tuple(tree_leaves(carried))


def _map(wrapper: Any, function: Any, mapped: list[torch.Tensor], operands: list[Any]) -> Any:
    """Call a function with each row, in the rows' original structure, which the wrapper stores."""
    structures = getclosurevars(wrapper).nonlocals
    others = tree_unflatten(operands, structures["args_spec"])
    rows = zip(*(part.unbind() for part in mapped), strict=True)
    return _stacked([function(tree_unflatten(row, structures["xs_spec"]), *others) for row in rows])


def _scan(_: Any, combine: Any, carry: Any, mapped: list[torch.Tensor]) -> tuple[Any, Any]:
    found = []
    for row in zip(*(part.unbind() for part in mapped), strict=True):
        carry, out = combine(*tree_leaves(carry), *row)
        found.append(out)
    return carry, _stacked(found)


def _stacked(results: list[Any]) -> Any:
    return tree_map(
        lambda first, *rest: torch.stack((first, *rest)) if isinstance(first, torch.Tensor) else first, *results
    )


_IN_PYTHON: dict[str, Callable[..., Any]] = {
    "_cond_op_wrapper": _cond,
    "_while_loop_op_wrapper": _while_loop,
    "run_flattened_map": _map,
    "run_flattened_scan": _scan,
}
"""Functions that torch compiles -> their implementations in Python."""
