"""Torch's private names, each used in this one place because a new version of torch may change them."""

from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any

import torch
import torch.autograd.graph
import torch.utils.data.dataloader
from torch._library import simple_registry
from torch._ops import _get_dispatch_mode_pre_dispatch as early_dispatch_mode
from torch._ops import key_extractor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._python_dispatch import _disable_current_modes as disable_dispatch_modes
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as current_dispatch_modes
from torch.utils._python_dispatch import _pop_mode as pop_dispatch_mode
from torch.utils._python_dispatch import _push_mode as push_dispatch_mode
from torch.utils._pytree import tree_leaves

__all__ = ["current_dispatch_modes", "disable_dispatch_modes", "pop_dispatch_mode", "push_dispatch_mode"]

C: Any = torch._C
"""Torch's extension module."""
OpOverload = torch._ops.OpOverload
HigherOrderOperator = torch._ops.HigherOrderOperator

find_dispatch_rule: Any = getattr(simple_registry, "find_torch_dispatch_rule", None)
"""Return the function that a program has registered for an operator in a mode of some class, or None."""
data_ptr = C.TensorBase.data_ptr  # the original method, without the overhead of hooks
tolist = C.TensorBase.tolist
untyped_storage: Callable[[torch.Tensor], torch.UntypedStorage] = C.TensorBase.untyped_storage
is_contiguous = C.TensorBase.is_contiguous
current_node: Callable[[], Any] = C._current_autograd_node
"""Return the backward node that runs in this thread; None outside of a backward pass."""
has_storage: Callable[[torch.Tensor], bool] = C._has_storage
group_by_device_and_dtype = C._group_tensors_by_device_and_dtype
functorch = C._functorch
"""The functions that `torch.func` wraps."""
nested_functions = C._nested
"""The functions that `torch.nested` calls to create tensors of the strided layout."""
nn_module = C._nn
"""The part of the extension module that `nn.Module.to` calls."""
BelowAutograd = C._AutoDispatchBelowAutograd
DisableAutocast = C._DisableAutocast
DisableTorchDispatch = C._DisableTorchDispatch
"""Disables the handling of operators by modes and by tensor subclasses."""
DisableTorchFunctionSubclass = C.DisableTorchFunctionSubclass
"""Disables the handling of torch functions by tensor subclasses."""
DisableTorchFunction = C.DisableTorchFunction
"""Disables all overrides of torch functions, such as a default device."""
SetExcludeDispatchKeyGuard = C._SetExcludeDispatchKeyGuard
registrations_for_key: Callable[[str], list[str]] = C._dispatch_get_registrations_for_dispatch_key
NO_CPU_AUTOCAST = "AutocastMAIA"
"""The dispatch key that keeps the CPU's autocast from virtual GPUs: that of a kind of device that is not available."""
OUTERMOST = "TESTING_ONLY_GenericMode"
"""A dispatch key that torch does not use, before those of the transforms of `torch.func`: c10/core/DispatchKey.h."""
storage_key: Callable[[torch.UntypedStorage], int] = attrgetter("_cdata")
"""Return the identity of a storage: its C++ address."""
storage_key_of: Callable[[torch.Tensor], int] = C._storage_address
"""Return the identity of a tensor's storage without creating a Python object for the storage.

Raises:
    NotImplementedError: the tensor has no storage.

Source:
    torch/csrc/Module.cpp, `_storage_address`.
"""


_storage_address = torch.UntypedStorage.data_ptr


def storage_owners(storage: torch.UntypedStorage) -> int:
    """Return the C++ reference count of a storage, including the reference of its Python object."""
    return int(C._storage_Use_Count(storage_key(storage)))


tensor_owners: Callable[[torch.Tensor], int] = methodcaller("_use_count")
"""Return the C++ reference count of a tensor, including the reference of its Python object."""


def unowned_storage(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return a host storage that shares the bytes of another without keeping it alive."""
    alias: torch.UntypedStorage = C._construct_storage_from_data_pointer(
        _storage_address(storage), torch.device("cpu"), storage.nbytes()
    )
    return alias


generator_address: Callable[[Any], int] = attrgetter("_cdata")
"""Return the identity of a random number generator: its C++ address."""
sequence_number: Callable[[Any], int] = methodcaller("_sequence_nr")
"""Return the sequence number of a backward node, assigned at its creation."""
next_sequence_number: Callable[[], int] = C._autograd._get_sequence_nr


NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""Python's number types, with the dtypes of the tensors that represent them (c10/core/ScalarType.h)."""


_DIRECT = {
    "aten::_foreach_add_.Scalar": C._VariableFunctions._foreach_add_,
    "aten::_foreach_addcdiv_.ScalarList": C._VariableFunctions._foreach_addcdiv_,
    "aten::_foreach_addcmul_.Scalar": C._VariableFunctions._foreach_addcmul_,
    "aten::_foreach_div_.ScalarList": C._VariableFunctions._foreach_div_,
    "aten::_foreach_lerp_.Scalar": C._VariableFunctions._foreach_lerp_,
    "aten::_foreach_mul_.Scalar": C._VariableFunctions._foreach_mul_,
    "aten::_foreach_sqrt": C._VariableFunctions._foreach_sqrt,
    "aten::_local_scalar_dense": C.TensorBase.item,
    "aten::addmm": C._VariableFunctions.addmm,
    "aten::detach": C.TensorBase.detach,
    "aten::mm": C._VariableFunctions.mm,
    "aten::relu": C._VariableFunctions.relu,
    "aten::t": C.TensorBase.t,
}
"""Operators whose Python function does the same as the operator, on positional arguments, in half the time.

Source:
    torch/csrc/jit/python/pybind_utils.cpp, `invokeOperatorFromPython`: arguments are converted by schema.
    torch/csrc/autograd/python_torch_functions_manual.cpp and its generated siblings: a function parses them itself.
"""


def direct_call(func: OpOverload) -> Callable[..., Any]:
    """Return the fastest way to call an operator with positional arguments.

    If the operator returns nothing, the result is undefined.
    """
    found: Callable[..., Any] = _DIRECT.get(func._name, func._op)
    return found


def keys_below(name: str) -> Any:
    """Return all dispatch keys that are handled after a key."""
    return C._dispatch_keyset_full_after(C._parse_dispatch_key(name))


def dispatch_by(name: str, *, included: bool) -> None:
    """Set whether this thread's operators are dispatched by a key whatever their tensors are, unless it is excluded.

    Source:
        c10/core/impl/LocalDispatchKeySet.h: the included keys are added to those of the tensors, and the excluded ones
        removed. aten/src/ATen/ThreadLocalState.h: the threads of a backward pass inherit both.
    """
    C._dispatch_tls_set_dispatch_key_included(C._parse_dispatch_key(name), included)


def exclude_key(name: str, *, excluded: bool) -> None:
    """Set whether this thread's operators are dispatched without a key."""
    C._dispatch_tls_set_dispatch_key_excluded(C._parse_dispatch_key(name), excluded)


def schema_of(func: Any) -> Any:
    """Return the schema of an operator."""
    return func._schema


def is_composite(func: Any) -> bool:
    """Return whether an operator consists of others that a mode sees only if it decomposes them, as in inference mode.

    Python kernels, which torch has for tracing, do not count, because no program runs them. Neither do operators that
    have a kernel for a device, such as `silu_backward`: that kernel is run.

    Source:
        torch/_ops.py, `OpOverload.decompose`; with autograd such operators are decomposed before they reach a mode.
    """
    if not isinstance(func, OpOverload):
        return False
    return has_kernel(func, "CompositeImplicitAutograd") and not any(has_kernel(func, key) for key in ("CPU", "CUDA"))


def run_parts(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the operators that an operator consists of, as torch does without a mode.

    `OpOverload.decompose` prefers a Python kernel: a dropout that drops nothing would return a copy.

    Source:
        torch/_decomp/decompositions.py, `dropout_decomposition`.
    """
    return func._op_dk(C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def has_nested_tensor(args: tuple[Any, ...]) -> bool:
    """Return whether an operator is called with a nested tensor of the strided layout, which has a kernel of its own.

    Source:
        aten/src/ATen/native/native_functions.yaml, `linear`: the keys NestedTensorCPU and NestedTensorCUDA.
    """
    return any(isinstance(value, torch.Tensor) and value.is_nested for value in args)


def python_kernel(
    func: OpOverload, gpu_key: str, is_on_gpu: Callable[[torch.Tensor], bool]
) -> Callable[[tuple[Any, ...], dict[str, Any]], Any] | None:
    """Return a function that runs the kernel that a library wrote for an operator in Python; None if there is none.

    Operators that the kernel calls reach a mode. torch selects the kernel by the tensors. A CPU kernel is preferred to
    one for GPUs, which often contains code that simulated GPUs cannot run (Triton).

    Args:
        func: the operator.
        gpu_key: the dispatch key of the GPUs' kernels, such as "CUDA".
        is_on_gpu: whether a tensor is on a simulated GPU.

    Source:
        torch/library.py, `Library.impl`: `_impls`. torch/_ops.py, `key_extractor`. c10/core/DispatchKey.h has the order
        of the keys: kernels, BackendSelect, which selects a device for operators without tensors, and modes.
    """
    key = next((k for k in ("CPU", gpu_key, "CompositeExplicitAutograd") if has_kernel(func, k)), None)
    if f"{func._name.replace('::', '/')}/{key}" not in torch.library._impls:
        return None
    of_gpus = getattr(C.DispatchKey, gpu_key) if key == gpu_key else None

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        if of_gpus is not None and any(map(is_on_gpu, tensors)):
            return func._op_dk(of_gpus, *args, **kwargs)
        keys = _keys_of(tensors, _BACKENDS)
        return func.redispatch(keys.add(_SELECT) if has_kernel(func, "BackendSelect") else keys, *args, **kwargs)

    return run


_keys_of: Any = key_extractor
_SELECT = C.DispatchKey.BackendSelect
_BACKENDS = C._dispatch_keyset_full_after(_SELECT)
"""The dispatch keys of kernels, as torch selects them by the tensors alone."""


def has_kernel(func: OpOverload, key: str) -> bool:
    """Return whether an operator has a kernel for a dispatch key; False for an operator that only TorchScript has.

    Source:
        torch/csrc/jit/runtime/register_prim_ops.cpp: `prim::device` and others, which tensor subclasses receive.
    """
    name = func._name
    return bool(C._dispatch_has_kernel(name) and C._dispatch_has_kernel_for_dispatch_key(name, key))


def tensor_of(value: Any) -> Any:
    """Return the host tensor that represents a number in an operator call; a tensor is returned unchanged."""
    dtype = NUMBERS.get(type(value))
    return value if dtype is None else torch.scalar_tensor(value, dtype=dtype, device="cpu")


def call_with_numbers(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator with arguments from a dispatch mode, which may contain numbers in place of tensors."""
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        values = with_tensors(func, args, error)
        if values is None:
            raise
    return func(*values, **kwargs)


def with_tensors(func: Any, args: tuple[Any, ...], error: BaseException) -> tuple[Any, ...] | None:
    """Return the arguments of an operator that rejected a number, with a tensor in its place; None for other errors.

    A constant of a traced function is a tensor that represents a number. It reaches a mode as that number, which few
    operators accept.

    Args:
        func: the operator.
        args: its positional arguments.
        error: the exception that it raised.

    Source:
        torch/csrc/utils/python_arg_parser.cpp, `should_allow_numbers_as_tensors`; the text of the error:
        aten/src/ATen/core/function_schema_inl.h, `formatTypeMismatchMsg`.
    """
    refused = isinstance(error, RuntimeError) and "Expected a value of type 'Tensor'" in str(error)
    if not refused or not isinstance(func, OpOverload):
        return None
    wanted = [isinstance(parameter.type, torch.TensorType) for parameter in schema_of(func).arguments]
    positions = {index for index, value in enumerate(args) if wanted[index] and type(value) in NUMBERS}
    return tuple(tensor_of(v) if i in positions else v for i, v in enumerate(args)) if positions else None


def fake_mode() -> Any:
    """Return the FakeTensorMode that is active in this thread; None if there is none."""
    return C._get_dispatch_mode(C._TorchDispatchModeKey.FAKE)


_PROXY = C._TorchDispatchModeKey.PROXY


def tracer() -> Any:
    """Return the mode of `make_fx` that records the operators of this thread; None if there is none."""
    return C._get_dispatch_mode(_PROXY)


def early_tracer() -> Any:
    """Return the mode that records operators of this thread before autograd does, as for export; None likewise."""
    return early_dispatch_mode(_PROXY)  # type: ignore[no-untyped-call]  # torch leaves it untyped


def is_traced() -> bool:
    """Return whether one of torch's own modes is active in this thread: operators are traced, or have no memory."""
    return any(C._get_dispatch_mode(key) is not None for key in C._TorchDispatchModeKey.__members__.values())


def is_transformed(values: list[Any]) -> bool:
    """Return whether operators on these values are traced or transformed by `torch.func`, rather than only run."""
    if is_traced() or functorch.maybe_current_level() is not None:
        return True
    return any(isinstance(value, MODE_TENSOR_TYPES) for value in values)


_BY_ROWS, _BY_COLUMNS = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
SPARSE = {
    torch.sparse_coo: ("_indices", "_values"),  # work on uncoalesced tensors, too
    torch.sparse_csr: _BY_ROWS,
    torch.sparse_bsr: _BY_ROWS,
    torch.sparse_csc: _BY_COLUMNS,
    torch.sparse_bsc: _BY_COLUMNS,
}
"""Sparse layout -> the methods that return the dense parts of a tensor, its values last."""


def sparse_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors that a sparse tensor consists of, its values last; [] for any other layout."""
    return [getattr(tensor, name)() for name in SPARSE.get(tensor.layout, ())]


def is_zero_tensor(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is one of torch's efficient zeros, which have no memory."""
    return bool(tensor._is_zerotensor())


MODE_TENSOR_TYPES = (FakeTensor, FunctionalTensor)
"""Tensor classes whose operators run in one of torch's own modes, below all modes of programs; they have no memory.

Source:
    torch/utils/_python_dispatch.py, `_push_mode`. If a mode returns NotImplemented, torch calls the class next, not
    the mode below.
"""


def overrides_dispatch(kind: type[torch.Tensor]) -> bool:
    """Return whether a tensor class handles operators itself, by running others on the tensors that it holds."""
    return kind.__torch_dispatch__ is not _PLAIN


_PLAIN = torch.Tensor.__torch_dispatch__


def engine() -> Any:
    """Return the function that runs all backward passes that Python starts."""
    return torch.autograd.graph._engine_run_backward


def loader_iterator() -> Any:
    """Return the class of DataLoader iterators, with or without workers."""
    return torch.utils.data.dataloader._BaseDataLoaderIter


def new_plain_event() -> Any:
    """Return a CUDA event whose methods bypass the hooks on the program's events."""
    return C._CudaEventBase()


def is_in_bad_fork() -> bool:
    """Return whether this is a forked child of a process that has used CUDA."""
    return bool(torch.cuda._is_in_bad_fork())
