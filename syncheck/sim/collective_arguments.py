"""Arguments and results of collectives' operators: what NCCL takes and gloo does not, and the handles in them."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch

from syncheck.instrument.c10d import ProcessGroup, Work
from syncheck.instrument.collectives import argument, calls
from syncheck.instrument.plan import Argument, Plan, tensors_of
from syncheck.instrument.torch_internals import tensor_owners, unowned_storage
from syncheck.semantics.collectives import FLAT, POINT_TO_POINT

T = TypeVar("T")
_GLOO_SECONDS = 1.0
WRITTEN_AT_WAIT = frozenset("reduce_scatter_ _reduce_scatter_base_ reduce_scatter_tensor_coalesced_".split())
"""Collectives of which gloo's handle writes the outputs at each wait for it, the program's own waits among them.

Source: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, the handle of `reduce_scatter`.
"""


def for_gloo_of(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_handle: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments as gloo takes them.

    Gloo owns its tensors longer than NCCL does: as long as the program has the handle, and in a thread of its own a
    moment longer than the wait takes. So it gets tensors that own no memory; only the outputs of a handle stay, which
    NCCL's handle owns, too. A message may still be on its way when the call returns, so that what is sent is copied.

    Args:
        plan: the collective's.
        args: its arguments.
        kwargs: its arguments by name.
        has_handle: the program gets a handle.

    Raises:
        ValueError: NCCL's errors for tensors that it refuses.

    Source:
        torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, `runLoop`, `AsyncWork`; ProcessGroupNCCL.cpp, `outputs_`.
    """
    if "reduce" not in plan.base:
        args, kwargs = _changed(plan, args, kwargs, lambda _: True, _as_known)
    if plan.base in FLAT:
        args = (*_flat(plan.base, args), *args[2:])
    if plan.base not in POINT_TO_POINT:
        return _changed(plan, args, kwargs, lambda is_write: not (is_write and has_handle), borrowed)
    return _changed(plan, args, kwargs, lambda is_write: has_handle and not is_write, torch.clone)


def cloned(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], *, dtype: torch.dtype | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with copies of all tensors in them; `dtype`: of the copies, if it is another one."""
    return _changed(
        plan, args, kwargs, lambda _: True, torch.clone if dtype is None else lambda tensor: tensor.to(dtype)
    )


def averages_integers(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether NCCL is to average integers, which it rounds toward zero: gloo refuses them.

    Source:
        NCCL, src/device/reduce_kernel.h, `FuncSumPostDiv`; torch/csrc/distributed/c10d/ProcessGroupGloo.cpp,
        `AsyncAllreduceWork::run`, divides in place.
    """
    if calls.reduce != "avg":
        return False
    return any(not (t.is_floating_point() or t.is_complex()) for t, _ in tensors_of(plan, args, kwargs))


def _changed(
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    is_changed: Callable[[bool], bool],
    change: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with other tensors in them, depending on whether these are written."""
    changed = list(args)
    for taken in plan.tensors:
        if not is_changed(taken.is_write):
            continue
        if taken.position < len(changed):
            changed[taken.position] = _mapped(change, changed[taken.position])
        elif taken.name in kwargs:
            kwargs = {**kwargs, taken.name: _mapped(change, kwargs[taken.name])}
    return tuple(changed), kwargs


def borrowed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the same memory that does not own it; itself where that cannot be."""
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg() or not tensor.numel():
        return tensor
    storage = unowned_storage(tensor.untyped_storage())
    made = torch.empty(0, dtype=tensor.dtype)
    return made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def _as_known(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of a type of 8 bits that gloo does not know as bytes; any other as it is.

    Source:
        torch/csrc/distributed/c10d/NCCLUtils.cpp, `getNcclDataType`: NCCL has 8-bit floating point types.
    """
    is_unknown = tensor.is_floating_point() and tensor.element_size() == 1 and tensor.layout == torch.strided
    return tensor.view(torch.uint8) if is_unknown else tensor


def _flat(base: str, args: tuple[Any, ...]) -> list[Any]:
    """Return output and input of a collective, or lists of them, as vectors: gloo wants certain shapes, NCCL none.

    Raises:
        ValueError: NCCL's error for a wrong size, or for memory that does not lie side by side.
    """
    size = group_size(args)
    pairs = list(zip(*(value if isinstance(value, list | tuple) else [value] for value in args[:2]), strict=True))
    for output, given in pairs:
        larger, smaller = (output, given) if "gather" in base else (given, output)
        if larger.numel() != smaller.numel() * size:
            raise ValueError(FLAT[base])
        if not (output.is_contiguous() and given.is_contiguous()):
            raise ValueError("Tensors must be contiguous")
    vectors = [[tensor.view(-1) for tensor in side] for side in zip(*pairs, strict=True)]
    return vectors if isinstance(args[0], list | tuple) else [side[0] for side in vectors]


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    return [_mapped(change, entry) for entry in value] if isinstance(value, list | tuple) else value


def asks_for_handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a collective was asked for with `async_op`; sending and receiving always are."""
    asked = (argument(func, name, args, kwargs) for name in ("async_op", "asyncOp"))
    return bool(next((value for value in asked if value is not None), True))


def copy_results(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[tuple[torch.Tensor, Argument]]
) -> None:
    """Copy what a collective has written from the copies that gloo got to the program's tensors."""
    for (made, taken), (tensor, _) in zip(tensors_of(plan, args, kwargs), tensors, strict=True):
        if taken.is_write:
            tensor.copy_(made)


def group_name(args: tuple[Any, ...]) -> str:
    """Return the name of the group among a collective's arguments; "" if there is none."""
    return _of_group(args, lambda group: str(group.group_name), "")


def group_size(args: tuple[Any, ...]) -> int:
    """Return how many ranks the group among a collective's arguments has; 0 if there is none."""
    return _of_group(args, lambda group: int(group.size()), 0)


def _of_group(args: tuple[Any, ...], read: Callable[[Any], T], otherwise: T) -> T:
    """Return what is read of the first group that has it."""
    for value in args:
        if isinstance(value, torch.ScriptObject):
            try:
                return read(ProcessGroup.unbox(value))
            except (TypeError, RuntimeError):
                continue
    return otherwise


def work_in(result: Any) -> Any:
    """Return the handle in a collective's result."""
    boxed = result if isinstance(result, torch.ScriptObject) else result[-1]
    return Work.unbox(boxed)


def wait_for_gloo(owned: Iterable[tuple[torch.Tensor, int]]) -> None:
    """Wait until gloo's thread has let go of tensors, which it does a moment after it has said that they are done.

    Args:
        owned: tensors, and how many owners in C++ each has without gloo.

    Source:
        torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, `runLoop`: `workInProgress_[workerIndex].reset()`.
    """
    deadline = time.monotonic() + _GLOO_SECONDS
    for tensor, n_owners in owned:
        while tensor_owners(tensor) > n_owners and time.monotonic() < deadline:
            time.sleep(0.0001)
