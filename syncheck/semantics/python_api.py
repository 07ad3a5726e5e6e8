"""The effects of torch's functions and methods, by the names that programs use.

The tables list only exceptions. A function that is not listed is taken to be the operator of the same name, which reads
its tensors and creates a new one; a method whose name ends in "_" modifies its tensor.
"""

MEMBERS_WITHOUT_MEMORY = frozenset(
    """size dim ndimension numel nelement stride element_size is_contiguous is_pinned data_ptr type get_device storage
    storage_offset untyped_storage retain_grad is_floating_point is_complex is_shared share_memory_ has_names
    is_coalesced dim_order shape dtype device layout is_cuda is_cpu requires_grad grad_fn is_leaf ndim nbytes names
    itemsize is_sparse is_quantized is_meta is_same_size""".split()
)
"""Members of `torch.Tensor` that access sizes, types and addresses, but no memory."""

ALIASES = frozenset(
    """view reshape t transpose permute squeeze unsqueeze expand expand_as flatten ravel detach view_as movedim swapaxes
    swapdims unflatten requires_grad_ contiguous mT mH T H real data adjoint atleast_1d detach_ squeeze_
    unsqueeze_ t_ transpose_ swapaxes_ rename refine_names values indices""".split()
)
"""Methods that return an alias of the whole tensor. Some, such as `reshape`, copy if the strides require it."""

CASTS = frozenset({"float", "half", "double", "bfloat16"})
"""Methods that return the tensor itself if it has the data type already.

Source: aten/src/ATen/native/TensorConversions.cpp.
"""

REORDERING = frozenset("t transpose permute swapaxes swapdims movedim T mT H mH t_ transpose_ swapaxes_".split())
"""Members of `ALIASES` whose result is no longer contiguous."""

PARTS = frozenset(
    "narrow select chunk split unbind tensor_split diagonal unfold split_with_sizes hsplit vsplit as_strided".split()
)
"""Methods that return an alias of a part of a tensor, or several."""

FACTORIES = frozenset(
    """empty zeros ones rand randn randint randperm full arange linspace logspace eye tensor as_tensor empty_strided
    hann_window hamming_window normal tril_indices triu_indices""".split()
)
"""Functions of torch that create a tensor from scratch."""
LIKE = frozenset("empty_like zeros_like ones_like rand_like randn_like randint_like full_like".split())
NEW = frozenset("new_empty new_zeros new_ones new_full new_tensor".split())

OVERWRITING = frozenset(
    """zero_ fill_ copy_ normal_ uniform_ random_ exponential_ bernoulli_ geometric_ cauchy_ log_normal_ set_
    resize_""".split()
)
"""Methods that write a tensor without reading its previous contents."""

COMPARING = frozenset(
    """gt ge lt le eq ne gte lte noteq greater greater_equal less less_equal not_equal isnan isinf isfinite isclose isin
    isposinf isneginf signbit isreal any all logical_and logical_or logical_xor logical_not""".split()
)
"""Operators that return booleans, including the names of Python's comparison operators."""
COMBINING = frozenset("bitand bitor bitxor invert bitwise_and bitwise_or bitwise_xor bitwise_not clone".split())
"""Operators that return booleans if their inputs are booleans."""

RETURNING_VALUES = frozenset("item tolist __bool__ __int__ __float__ __index__ allclose equal".split())
"""Methods that return Python values."""

SIZED_BY_VALUES = frozenset("nonzero argwhere masked_select unique unique_consecutive".split())
"""Methods and functions whose result has a size that depends on the values, which the host waits for. See `waits`."""

_OPERATORS = {
    "item": "_local_scalar_dense",
    "tolist": "_local_scalar_dense",
    "__bool__": "_local_scalar_dense",
    "__int__": "_local_scalar_dense",
    "__float__": "_local_scalar_dense",
    "__index__": "_local_scalar_dense",
    "argwhere": "nonzero",
    "combinations": "masked_select",
    "unique": "_unique2",
    "to_sparse": "_to_sparse",
    "svd": "_linalg_svd",
    "pinverse": "linalg_pinv",
    "matrix_exp": "linalg_matrix_exp",
    "linalg.cond": "_linalg_svd",
    "linalg.eig": "linalg_eig",
    "linalg.eigh": "_linalg_eigh",
    "linalg.eigvals": "linalg_eigvals",
    "linalg.eigvalsh": "_linalg_eigh",
    "linalg.pinv": "linalg_pinv",
    "linalg.svd": "_linalg_svd",
    "linalg.svdvals": "_linalg_svd",
    "linalg.lstsq": "linalg_lstsq",
    "linalg.matrix_rank": "_linalg_svd",
    "linalg.matrix_exp": "linalg_matrix_exp",
    "svd_lowrank": "_linalg_svd",
    "pca_lowrank": "_linalg_svd",
    "nn.functional.ctc_loss": "_ctc_loss",
    "nn.functional.gaussian_nll_loss": "_local_scalar_dense",
    "ctc_loss": "_ctc_loss",
}
_OPERATORS |= dict.fromkeys(
    """linalg.cholesky linalg.inv linalg.ldl_factor linalg.lu_factor linalg.solve linalg.tensorinv linalg.tensorsolve
    inverse""".split(),
    "_linalg_check_errors",
)


def operator_of(name: str) -> str:
    """Return the operator that determines whether the host waits in a function or method.

    Args:
        name: the name without "torch.", such as "item" or "linalg.inv".

    Source:
        the operators that each function calls, as a dispatch mode sees them; tests/unit/semantics compares the table
        with the simulator on torch's own samples.
    """
    return _OPERATORS.get(name, name.rpartition(".")[2])
