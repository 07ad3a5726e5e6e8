"""Arguments and results of collective operators: adapts what NCCL accepts and gloo does not, and finds handles."""

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
WRITTEN_ON_WAIT = frozenset("reduce_scatter_ _reduce_scatter_base_ reduce_scatter_tensor_coalesced_".split())
"""Collectives whose gloo handle writes the outputs again at each wait for it, including the program's own waits.

Source: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, the handle of `reduce_scatter`.
"""


def gloo_arguments(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_handle: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments in a form that gloo accepts.

    gloo owns its tensors longer than NCCL does: as long as the program holds the handle, and in its own thread slightly
    longer than the wait. So it gets tensors that do not own their memory. Only the outputs of a collective with a
    handle are passed as they are, because NCCL's handle owns them, too. A message may still be in transit when the call
    returns, so the tensors to send are copied.

    Args:
        plan: the collective's plan.
        args: its positional arguments.
        kwargs: its keyword arguments.
        has_handle: whether the program, or DDP's reducer, gets a handle.

    Raises:
        ValueError: NCCL's errors for tensors that it rejects.

    Source:
        torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, `runLoop`, `AsyncWork`; ProcessGroupNCCL.cpp, `outputs_`.
    """
    if "reduce" not in plan.base:
        args, kwargs = _replace_tensors(plan, args, kwargs, lambda _: True, _as_bytes)
    if plan.base in FLAT:
        args = (*_flat(plan.base, args), *args[2:])
    if plan.base not in POINT_TO_POINT:
        return _replace_tensors(plan, args, kwargs, lambda is_write: not (is_write and has_handle), borrowed)
    return _replace_tensors(plan, args, kwargs, lambda is_write: has_handle and not is_write, torch.clone)


def clone_tensors(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], *, dtype: torch.dtype | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments in which all tensors are replaced by copies, converted to `dtype` if given."""
    return _replace_tensors(
        plan, args, kwargs, lambda _: True, torch.clone if dtype is None else lambda tensor: tensor.to(dtype)
    )


def padded_size(plan: Plan, args: tuple[Any, ...]) -> int:
    """Return the size of the largest output of a gather of tensors of different sizes; 0 for any other collective.

    Source:
        ProcessGroupNCCL.cpp, `allgather`: it broadcasts each rank's tensor if their sizes differ. gloo rejects that.
    """
    sizes = {output.numel() for outputs in args[0] for output in outputs} if plan.base == "allgather_" else set()
    return max(sizes) if len(sizes) > 1 else 0


def pad_tensors(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], size: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments in which all tensors are replaced by flat copies of a size."""

    def padded(tensor: torch.Tensor) -> torch.Tensor:
        larger = tensor.new_zeros(size)
        larger[: tensor.numel()].copy_(tensor.reshape(-1))
        return larger

    return _replace_tensors(plan, args, kwargs, lambda _: True, padded)


def averages_integers(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether NCCL would average integers, rounding toward zero. gloo rejects that.

    Source:
        NCCL, src/device/reduce_kernel.h, `FuncSumPostDiv`; torch/csrc/distributed/c10d/ProcessGroupGloo.cpp,
        `AsyncAllreduceWork::run`, divides in place.
    """
    if calls.reduce != "avg":
        return False
    return any(not (t.is_floating_point() or t.is_complex()) for t, _ in tensors_of(plan, args, kwargs))


def _replace_tensors(
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    is_changed: Callable[[bool], bool],
    change: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with some tensors replaced. `is_changed` selects them by whether they are written."""
    changed = list(args)
    for operand in plan.tensors:
        if not is_changed(operand.is_write):
            continue
        if operand.position < len(changed):
            changed[operand.position] = _mapped(change, changed[operand.position])
        elif operand.name in kwargs:
            kwargs = {**kwargs, operand.name: _mapped(change, kwargs[operand.name])}
    return tuple(changed), kwargs


def borrowed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that shares the memory without owning it, or the tensor itself if that is impossible."""
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg() or not tensor.numel():
        return tensor
    storage = unowned_storage(tensor.untyped_storage())
    alias = torch.empty(0, dtype=tensor.dtype)
    return alias.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return an 8-bit floating point tensor as bytes, because gloo does not support its type; others unchanged.

    Source:
        torch/csrc/distributed/c10d/NCCLUtils.cpp, `getNcclDataType`: NCCL has 8-bit floating point types.
    """
    is_unknown = tensor.is_floating_point() and tensor.element_size() == 1 and tensor.layout == torch.strided
    return tensor.view(torch.uint8) if is_unknown else tensor


def _flat(base: str, args: tuple[Any, ...]) -> list[Any]:
    """Return a collective's output and input, or lists of them, as vectors, because gloo requires certain shapes.

    Raises:
        ValueError: NCCL's error for a wrong size or for memory that is not contiguous.
    """
    size = group_size(args)
    pairs = list(zip(*(value if isinstance(value, list | tuple) else [value] for value in args[:2]), strict=True))
    for output, input_tensors in pairs:
        larger, smaller = (output, input_tensors) if "gather" in base else (input_tensors, output)
        if larger.numel() != smaller.numel() * size:
            raise ValueError(FLAT[base])
        if not (output.is_contiguous() and input_tensors.is_contiguous()):
            raise ValueError("Tensors must be contiguous")
    vectors = [[tensor.view(-1) for tensor in side] for side in zip(*pairs, strict=True)]
    return vectors if isinstance(args[0], list | tuple) else [side[0] for side in vectors]


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    return [_mapped(change, entry) for entry in value] if isinstance(value, list | tuple) else value


def returns_handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a collective was called with `async_op`. Sends and receives always count as such."""
    values = (argument(func, name, args, kwargs) for name in ("async_op", "asyncOp"))
    return bool(next((value for value in values if value is not None), True))


def copy_results(
    plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[tuple[torch.Tensor, Argument]]
) -> None:
    """Copy the outputs of a collective from gloo's copies, which may be padded, to the program's tensors."""
    for (output, operand), (tensor, _) in zip(tensors_of(plan, args, kwargs), tensors, strict=True):
        if operand.is_write:
            tensor.copy_(output if output.shape == tensor.shape else output[: tensor.numel()].view(tensor.shape))


def group_name(args: tuple[Any, ...]) -> str:
    """Return the name of the group among a collective's arguments, or "" if there is none."""
    return _read_group(args, lambda group: str(group.group_name), "")


def group_size(args: tuple[Any, ...]) -> int:
    """Return the number of ranks of the group among a collective's arguments, or 0 if there is none."""
    return _read_group(args, lambda group: int(group.size()), 0)


def _read_group(args: tuple[Any, ...], read: Callable[[Any], T], otherwise: T) -> T:
    """Apply `read` to the first group among the arguments and return the result, or `otherwise` without one."""
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
    """Wait until gloo's thread has released tensors, which happens shortly after it reports completion.

    Args:
        owned: pairs of a tensor and its number of C++ owners apart from gloo.

    Source:
        torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, `runLoop`: `workInProgress_[workerIndex].reset()`.
    """
    deadline = time.monotonic() + _GLOO_SECONDS
    for tensor, n_owners in owned:
        while tensor_owners(tensor) > n_owners and time.monotonic() < deadline:
            time.sleep(0.0001)
