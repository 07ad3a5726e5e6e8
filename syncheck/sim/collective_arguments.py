"""Arguments and results of collectives' operators: what NCCL takes and gloo does not, and the handles in them."""

from typing import Any

import torch

from syncheck.instrument.c10d import ProcessGroup, Work
from syncheck.instrument.collectives import argument
from syncheck.instrument.plan import Plan
from syncheck.semantics.collectives import FLAT


def for_gloo_of(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], *, keeps_inputs: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments as gloo takes them; `keeps_inputs`: its handle keeps them, so that copies are made.

    Raises:
        ValueError: NCCL's errors for tensors that it refuses.
    """
    if plan.base in FLAT:
        args = (*_flat(plan.base, args), *args[2:])
    return _with_own_inputs(plan, args, kwargs) if keeps_inputs else (args, kwargs)


def _with_own_inputs(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with copies of what is only read: a handle of gloo keeps its tensors, one of NCCL does not."""
    changed = list(args)
    for taken in plan.tensors:
        if taken.is_write:
            continue
        if taken.position < len(changed):
            changed[taken.position] = _copied(changed[taken.position])
        elif taken.name in kwargs:
            kwargs = {**kwargs, taken.name: _copied(kwargs[taken.name])}
    return tuple(changed), kwargs


def _flat(base: str, args: tuple[Any, ...]) -> list[Any]:
    """Return output and input of a collective, or lists of them, as vectors: gloo wants certain shapes, NCCL none.

    Raises:
        ValueError: NCCL's error for a wrong size, or for memory that does not lie side by side.
    """
    size = _group_size(args)
    pairs = list(zip(*(value if isinstance(value, list | tuple) else [value] for value in args[:2]), strict=True))
    for output, given in pairs:
        larger, smaller = (output, given) if "gather" in base else (given, output)
        if larger.numel() != smaller.numel() * size:
            raise ValueError(FLAT[base])
        if not (output.is_contiguous() and given.is_contiguous()):
            raise ValueError("Tensors must be contiguous")
    vectors = [[tensor.view(-1) for tensor in side] for side in zip(*pairs, strict=True)]
    return vectors if isinstance(args[0], list | tuple) else [side[0] for side in vectors]


def _group_size(args: tuple[Any, ...]) -> int:
    return int(ProcessGroup.unbox(args[2]).size())


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [_copied(entry) for entry in value] if isinstance(value, list | tuple) else value


def asks_for_handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a collective was asked for with `async_op`; sending and receiving always are."""
    asked = (argument(func, name, args, kwargs) for name in ("async_op", "asyncOp"))
    return bool(next((value for value in asked if value is not None), True))


def group_name(args: tuple[Any, ...]) -> str:
    """Return the name of the group among a collective's arguments; "" if there is none."""
    for value in args:
        if isinstance(value, torch.ScriptObject):
            try:
                return str(ProcessGroup.unbox(value).group_name)
            except (TypeError, RuntimeError):
                continue
    return ""


def work_in(result: Any) -> Any:
    """Return the handle in a collective's result."""
    boxed = result if isinstance(result, torch.ScriptObject) else result[-1]
    return Work.unbox(boxed)
