"""What an operator reads and writes: worked out once from its schema, then looked up."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

# Operators that look at sizes, make storage or hand out aliases, and touch no memory. The last two wait for a
# functional collective, or wrap its result. Source: torch/csrc/distributed/c10d/Functional.cpp.
_METADATA = frozenset(
    """detach alias lift lift_fresh set_ resize_ resize_as_ record_stream is_pinned is_same_size sym_size sym_stride
    sym_numel sym_storage_offset size stride empty empty_strided empty_like new_empty new_empty_strided _unsafe_view
    _reshape_alias is_same_storage _has_same_storage_numel _nested_get_values _is_zerotensor _version dim numel
    is_contiguous is_coalesced _dimI _dimV dense_dim sparse_dim _nnz _fw_primal _make_dual _unpack_dual
    _set_data data requires_grad_ rename_ empty_permuted empty_quantized wait_tensor _wrap_tensor_autograd""".split()
)
# Operators that take sizes and type from their first tensor and do not read it.
_SIZE_ONLY = frozenset(
    """zeros_like ones_like full_like rand_like randn_like randint_like new_zeros new_ones new_full""".split()
)
# Operators that wait on the host for the current stream. Of the first kind the host needs the size of the result,
# before it launches the kernel that writes it; of the second kind it reads values, or an error code, at the end.
# Source: aten/src/ATen/native/cuda/{Nonzero,Unique,Indexing,SummaryOps,TensorCompare}.cu and cuda/linalg,
# aten/src/ATen/native/LinearAlgebraUtils.h (`_linalg_check_errors` calls `item()`), LinearAlgebra.cpp (linalg_pinv
# takes an SVD), TensorCompare.cpp (allclose); observed on an H200, with torch's own samples of its operators
# (tests/gpu/test_silent.py has the same loop).
_COUNTING = frozenset("nonzero nonzero_numpy masked_select repeat_interleave bincount histc linalg_pinv".split())
_SYNCHRONIZING = _COUNTING | frozenset(
    """_local_scalar_dense _unique _unique2 unique_dim unique_consecutive unique_dim_consecutive equal allclose
    _assert_scalar _linalg_eigh _linalg_svd linalg_eig linalg_eigvals linalg_lstsq _linalg_check_errors
    linalg_matrix_exp cholesky _ctc_loss _ctc_loss_backward _to_sparse masked_scatter_backward""".split()
)
# Operators that take a number as a tensor, by its position: where it lies on a GPU, the host waits for it before it
# launches the kernel. Source: aten/src/ATen/native/cuda/Indexing.cu (`masked_fill__cuda` calls `item()`, also for
# `x[mask] = value`), TensorAdvancedIndexing.cpp (`index_fill_`), RangeFactories.cpp, DistributionTemplates.h
# (CHECK_NORMAL_TENSOR_STD); observed on an H200.
_NUMBERS = {
    "aten::masked_fill.Tensor": (2,),
    "aten::masked_fill_.Tensor": (2,),
    "aten::index_fill.int_Tensor": (3,),
    "aten::index_fill_.int_Tensor": (3,),
    "aten::linspace.Tensor_Tensor": (0, 1),
    "aten::linspace.Tensor_Scalar": (0,),
    "aten::linspace.Scalar_Tensor": (1,),
    "aten::logspace.Tensor_Tensor": (0, 1),
    "aten::logspace.Tensor_Scalar": (0,),
    "aten::logspace.Scalar_Tensor": (1,),
    "aten::normal.Tensor_Tensor": (1,),
    "aten::normal.float_Tensor": (1,),
}
# Running statistics that the schema does not mark as written. Source: native_functions.yaml, native_batch_norm;
# aten/src/ATen/native/Normalization.cpp writes them in training mode.
_HIDDEN_WRITES = {"native_batch_norm": (3, 4), "cudnn_batch_norm": (3, 4), "miopen_batch_norm": (3, 4)}

# Operators that wait for the size of their result where an index is a mask. Source: as above, Indexing.cu.
MASKED = frozenset("index index_put index_put_ _index_put_impl_ _unsafe_index".split())

_DTYPE_NAMES = {
    dtype: str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}


def dtype_name(dtype: torch.dtype) -> str:
    """Return "float32" for torch.float32."""
    return _DTYPE_NAMES[dtype]


class Argument(NamedTuple):
    """A tensor argument of an operator; `position` counts from 0."""

    position: int
    name: str
    is_list: bool
    is_write: bool
    is_read: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """How to log an operator.

    Attributes:
        name: "aten::add".
        base: "add".
        tensors: its tensor arguments.
        touches: False for an operator that touches no memory.
        writes_outputs: it fills the new tensors that it returns.
        synchronizes: the host waits for the current stream inside it.
        counts: it does so for the size of its result, before it launches the kernel that writes that.
        numbers: positions of its arguments that it does so for, where they lie on a GPU.
        random: it draws from a generator.
        has_generator: it takes a `generator` argument.
        has_device: it takes a `device` argument.
    """

    name: str
    base: str
    tensors: tuple[Argument, ...]
    touches: bool
    writes_outputs: bool
    synchronizes: bool
    counts: bool
    numbers: tuple[int, ...]
    random: bool
    has_generator: bool
    has_device: bool


def plan_of(func: Any) -> Plan:
    """Work out the plan of an OpOverload.

    Source:
        `alias_info` of the schema, torch/csrc/jit; a return that aliases without being written marks a view.
    """
    schema = func._schema  # noqa: SLF001  torch offers no public name
    base = schema.name.partition("::")[2]
    is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    touches = base not in _METADATA and not is_view
    arguments = []
    for index, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if "Tensor" not in kind:
            continue
        writes = bool(argument.alias_info is not None and argument.alias_info.is_write)
        writes = writes or index in _HIDDEN_WRITES.get(base, ())
        reads = not (base in _SIZE_ONLY and index == 0)
        arguments.append(Argument(index, argument.name, "[]" in kind or "List" in kind, writes, reads))
    names = {argument.name for argument in schema.arguments}
    return Plan(
        name=schema.name,
        base=base,
        tensors=tuple(arguments),
        touches=touches,
        writes_outputs=touches,
        synchronizes=base in _SYNCHRONIZING,
        counts=base in _COUNTING,
        numbers=_NUMBERS.get(f"{schema.name}.{schema.overload_name.removesuffix('_out')}", ()),
        random=torch.Tag.nondeterministic_seeded in func.tags,
        has_generator="generator" in names,
        has_device="device" in names,
    )


def unique(accesses: list[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """Return each access (allocation, view, is_write) once; a write stands for a read of the same bytes."""
    kept: dict[tuple[int, int], bool] = {}
    for allocation, view, is_write in accesses:
        kept[allocation, view] = is_write or kept.get((allocation, view), False)
    return [(allocation, view, is_write) for (allocation, view), is_write in kept.items()]


def tensors_of(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[torch.Tensor, Argument]]:
    """Return the tensors that an operator was given, each with its argument."""
    found: list[tuple[torch.Tensor, Argument]] = []
    for argument in plan.tensors:
        value = args[argument.position] if argument.position < len(args) else kwargs.get(argument.name)
        if isinstance(value, torch.Tensor):
            found.append((value, argument))
        elif argument.is_list and value is not None:
            found.extend((item, argument) for item in tensors_in(value))
    return found


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an operator's result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
