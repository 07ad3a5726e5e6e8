"""When the host waits for the current stream in an operator, depending on its arguments."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Protocol

COUNTING = frozenset("nonzero nonzero_numpy masked_select repeat_interleave bincount histc linalg_pinv".split())
"""Operators for which the host needs the size of the result, or a bound, before it launches the kernel.

Source: as for SYNCHRONIZING.
"""

SYNCHRONIZING = COUNTING | frozenset(
    """_local_scalar_dense _unique _unique2 unique_dim unique_consecutive unique_dim_consecutive equal allclose
    _assert_scalar _linalg_eigh _linalg_svd linalg_eig linalg_eigvals linalg_lstsq _linalg_check_errors
    linalg_matrix_exp cholesky _ctc_loss _ctc_loss_backward _to_sparse masked_scatter_backward""".split()
)
"""Operators in which the host waits for the current stream; those not in COUNTING read values, or an error code.

Source: aten/src/ATen/native/cuda/{Nonzero,Unique,Indexing,SummaryOps,TensorCompare}.cu and cuda/linalg,
aten/src/ATen/native/LinearAlgebraUtils.h (`_linalg_check_errors` calls `item()`), LinearAlgebra.cpp (linalg_pinv takes
an SVD), TensorCompare.cpp (allclose); observed on an H200, with torch's own samples of its operators
(tests/gpu/test_silent.py has the same loop).
"""

NUMBERS: dict[str, tuple[tuple[int, str], ...]] = {
    "masked_fill": ((2, "value"),),
    "masked_fill_": ((2, "value"),),
    "index_fill": ((3, "value"),),
    "index_fill_": ((3, "value"),),
    "linspace": ((0, "start"), (1, "end")),
    "logspace": ((0, "start"), (1, "end")),
    "normal": ((1, "std"),),
}
"""Arguments that are a single number; the host waits for a GPU tensor passed as one before it launches the kernel.

Source: aten/src/ATen/native/cuda/Indexing.cu (`masked_fill__cuda` calls `item()`, also for `x[mask] = value`),
TensorAdvancedIndexing.cpp (`index_fill_`), RangeFactories.cpp, DistributionTemplates.h (CHECK_NORMAL_TENSOR_STD);
observed on an H200.
"""

READS_NUMBER = frozenset("fill_.Tensor masked_fill.Tensor masked_fill_.Tensor bernoulli_.Tensor".split())
"""Overloads, of otherwise silent operators, that read the number in a tensor."""

MASKED = frozenset("index index_put index_put_ _index_put_impl_ _unsafe_index".split())
"""Operators that wait for the size of their result if an index is a mask. Source: as above, Indexing.cu."""
_FILLS = frozenset({"index_put", "index_put_", "_index_put_impl_"})
_MAY_WAIT = SYNCHRONIZING | MASKED | frozenset(NUMBERS)


class HostWait(Enum):
    """When the host waits: never, before the operator's kernel is launched, or after the launch."""

    NEVER = auto()
    BEFORE = auto()
    AFTER = auto()


class TensorFacts(Protocol):
    """Properties of an operator's arguments, which are torch tensors or values of the static analysis."""

    def is_tensor(self, value: Any) -> bool:
        """Return whether an argument is a tensor."""
        ...

    def is_on_gpu(self, tensor: Any) -> bool:
        """Return whether a tensor is on a GPU."""
        ...

    def is_mask(self, tensor: Any) -> bool:
        """Return whether a tensor is a mask, whose true elements are counted when it is used as an index."""
        ...

    def is_number(self, tensor: Any) -> bool:
        """Return whether a tensor has one element."""
        ...


def may_wait(base: str) -> bool:
    """Return whether the host waits in any call of an operator; if not, its arguments need not be checked."""
    return base in _MAY_WAIT


def host_wait(base: str, args: Sequence[Any], kwargs: Mapping[str, Any], facts: TensorFacts) -> HostWait:
    """Return when the host waits in an operator on a GPU.

    Args:
        base: the operator's name without namespace and overload.
        args: its positional arguments.
        kwargs: its keyword arguments.
        facts: properties of the tensors among the arguments.
    """
    if _needs_size(base, args, kwargs, facts) or _needs_indices(base, args, facts):
        return HostWait.BEFORE
    for position, name in NUMBERS.get(base, ()):
        number = args[position] if position < len(args) else kwargs.get(name)
        if facts.is_tensor(number) and facts.is_on_gpu(number):
            return HostWait.BEFORE
    return HostWait.AFTER if base in SYNCHRONIZING and base not in COUNTING else HostWait.NEVER


def copies_number(base: str, args: Sequence[Any], facts: TensorFacts) -> bool:
    """Return whether `x[index] = 3.0` first copies its number to the GPU, in a copy that the host waits for.

    Source:
        torch/csrc/autograd/python_variable_indexing.cpp and ATen/TensorIndexing.h, `dispatch_index_put_`: `value.to`;
        seen on an H200, where it fails during a capture.
    """
    is_put = base in _FILLS and len(args) > 2 and facts.is_tensor(args[2])
    if not is_put or facts.is_on_gpu(args[2]) or _is_masked_fill(base, args, facts):
        return False
    return any(index is not None and facts.is_on_gpu(index) for index in args[1])


def _is_masked_fill(base: str, args: Sequence[Any], facts: TensorFacts) -> bool:
    """Return whether an assignment with one mask on the GPU becomes `masked_fill_`, whose kernel takes the number.

    Source:
        ATen/native/TensorAdvancedIndexingUtils.h, `canDispatchToMaskedFill`.
    """
    indices = [index for index in args[1] if index is not None]
    is_one = len(indices) == 1 and facts.is_mask(indices[0]) and facts.is_on_gpu(indices[0])
    return is_one and base in _FILLS and facts.is_number(args[2]) and not any(args[3:4])


def _needs_size(base: str, args: Sequence[Any], kwargs: Mapping[str, Any], facts: TensorFacts) -> bool:
    """Return whether the host must know the size of the result, or the bounds to count in.

    Source:
        aten/src/ATen/native/Repeat.cpp; aten/src/ATen/native/cuda/SummaryOps.cu, `_histc_cuda_template`.
    """
    if base == "repeat_interleave":
        repeats = args[1] if len(args) > 1 else kwargs.get("repeats", args[0])  # a number or a tensor of counts
        return facts.is_tensor(repeats) and kwargs.get("output_size") is None
    if base == "histc":
        low, high = (args[i] if i < len(args) else kwargs.get(name, 0) for i, name in ((2, "min"), (3, "max")))
        return bool(low == high)
    return base in COUNTING


def _needs_indices(base: str, args: Sequence[Any], facts: TensorFacts) -> bool:
    """Return whether the host waits for indices: it counts masks on the GPU, and copies integer indices on the host.

    A mask on the host is counted immediately, and the result is copied from pinned memory.

    Source:
        ATen/native/IndexingUtils.h, `expandTensors`.
    """
    if base not in MASKED or len(args) < 2:
        return False
    indices = [index for index in args[1] if index is not None]
    if _is_masked_fill(base, args, facts):
        return facts.is_on_gpu(args[2])
    return any(facts.is_on_gpu(index) == facts.is_mask(index) for index in indices)
