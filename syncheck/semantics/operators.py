"""The reads and writes of torch's operators, by their schema names without "aten::".

Most of this is in the schemas themselves, which `syncheck.instrument.plan` reads; the tables here add the rest.
"""

METADATA = frozenset(
    """detach alias lift lift_fresh set_ resize_ resize_as_ record_stream is_pinned is_same_size sym_size sym_stride
    sym_numel sym_storage_offset size stride empty empty_strided empty_like new_empty new_empty_strided _unsafe_view
    _reshape_alias is_same_storage _has_same_storage_numel _nested_get_values _is_zerotensor _version dim numel
    is_contiguous is_coalesced _dimI _dimV dense_dim sparse_dim _nnz _fw_primal _make_dual _unpack_dual
    unsafe_split unsafe_split_with_sizes
    _set_data data requires_grad_ rename_ empty_permuted empty_quantized wait_tensor _wrap_tensor_autograd
    _has_compatible_shallow_copy_type
    as_strided_ detach_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_""".split()
)
"""Operators that query sizes, create storage or return aliases, and access no memory.

`wait_tensor` and `_wrap_tensor_autograd` wait for a functional collective, or wrap its result. Those in the last line
change only the metadata of their tensor. `unsafe_split` returns views, although its schema does not say so.
Source: aten/src/ATen/native/TensorShape.cpp, `unsafe_split`; torch/csrc/distributed/c10d/Functional.cpp;
native_functions.yaml, which marks most of the views `inplace_view`.
"""

SIZE_ONLY = frozenset(
    "zeros_like ones_like full_like rand_like randn_like randint_like new_zeros new_ones new_full".split()
)
"""Operators that take sizes and dtype from their first tensor, without reading it."""

ALLOCATING = frozenset("empty empty_like empty_strided new_empty new_empty_strided empty_permuted".split())
"""Operators that allocate memory without writing it."""

OVERWRITING = frozenset(
    """copy_ fill_ zero_ normal_ uniform_ random_ exponential_ bernoulli_ geometric_ cauchy_ log_normal_ _foreach_copy_
    _foreach_zero_""".split()
)
"""In-place operators that write their tensors without reading the previous contents."""

HIDDEN_WRITES = {
    "native_batch_norm": (3, 4), "cudnn_batch_norm": (3, 4), "miopen_batch_norm": (3, 4),
    "batch_norm_gather_stats": (3, 4), "batch_norm_gather_stats_with_counts": (3, 4), "batch_norm_update_stats": (1, 2),
}  # fmt: skip
"""Arguments, by position, that are written although the schema does not mark them: running statistics.

Source: native_functions.yaml; aten/src/ATen/native/Normalization.cpp, aten/src/ATen/native/cuda/Normalization.cu.
"""

_STATISTICS = ("training", (3, 4))
_SCALED = ("grad_scale", (1,))
SWITCHED_WRITES = {
    "native_batch_norm": _STATISTICS, "cudnn_batch_norm": _STATISTICS, "miopen_batch_norm": _STATISTICS,
    "_native_batch_norm_legit": _STATISTICS,
    "_fused_adam_": _SCALED, "_fused_adamw_": _SCALED, "_fused_sgd_": _SCALED, "_fused_adagrad_": _SCALED,
}  # fmt: skip
"""Arguments, by position, that are only read if another argument, given by name, is False or None.

Source: aten/src/ATen/native/Normalization.cpp and native/cudnn/BatchNorm.cpp: running statistics are updated in
training mode. In evaluation mode, InstanceNorm copies its own statistics back, with operators that are seen.
native/cuda/fused_adam_utils.cuh, FusedSgdKernel.cu, fused_adagrad_utils.cuh: gradients are stored only if unscaled.
"""

HOST_OUTPUTS = {"_pack_padded_sequence": 1, "_pad_packed_sequence": 1}
"""Results in host memory, by position. Source: aten/src/ATen/native/PackedSequence.cpp, `batch_sizes_t`."""

ROWS: dict[str, tuple[int | None, int]] = {
    "index_select": (1, 2), "index_copy_": (1, 2), "index_add_": (1, 2), "index_fill_": (1, 2), "index_reduce_": (1, 2),
    "gather": (1, 2), "scatter_": (1, 2), "scatter_add_": (1, 2), "scatter_reduce_": (1, 2), "embedding": (None, 1),
    "_embedding_bag": (None, 1), "_embedding_bag_forward_only": (None, 1), "embedding_renorm_": (None, 1),
    "masked_select": (None, 1), "take": (None, 1), "put_": (None, 1),
    "index": (None, 1), "index_put_": (None, 1), "_index_put_impl_": (None, 1), "_unsafe_index": (None, 1),
}  # fmt: skip
"""Operators that access only those rows of their first tensor that an index selects: positions of `dim` and the index.

The position of `dim` is None if there is no such argument.
Source: native_functions.yaml; aten/src/ATen/native/TensorAdvancedIndexing.cpp, Embedding.cpp, EmbeddingBag.cpp.
"""
ELEMENTWISE = frozenset("gather scatter_ scatter_add_ scatter_reduce_".split())
"""Members of `ROWS` with one index per element; in the other dimensions, the extent of the index limits the access."""

# -- devices of the arguments

ACCEPT_HOST_TENSORS = frozenset(
    """index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put tensor_split
    _pack_padded_sequence _pad_packed_sequence _local_scalar_dense _fused_adam_ _fused_adamw_ _fused_sgd_
    _fused_adagrad_ lstm gru rnn_tanh rnn_relu mkldnn_rnn_layer _ctc_loss _ctc_loss_backward _cudnn_ctc_loss
    ctc_loss _pack_padded_sequence_backward record_stream _thnn_fused_lstm_cell _foreach_mul _foreach_mul_""".split()
)
"""Operators on a GPU whose other tensors may be on the CPU: indices, lengths, steps.

Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp, native/RNN.cpp, native/LossCTC.cpp, native/cuda/Fused*.cu.
"""

ACCEPT_ANY_DEVICE = frozenset(
    """set_ is_same_size _foreach_copy_ _foreach_copy _has_same_storage_numel _has_compatible_shallow_copy_type
    set_data""".split()
)
"""Operators that accept tensors on any devices. Source: native/ForeachUtils.h sends a mixed list to the slow path."""

NEED_SAME_DEVICE = frozenset(
    """stack embedding index_select gather scatter scatter_ scatter_add scatter_add_ nll_loss_forward searchsorted
    bucketize normal complex polar take isin""".split()
)
"""Operators that need zero-dimensional tensors on the same device, too; most others treat these as numbers.

Source: aten/src/ATen/native/native_functions.yaml has no `device_check: NoCheck` for them, or for `cat`.
"""

TAKE_NUMBER = frozenset("fill_ index_fill_ index_put_ index_put _index_put_impl_ _unsafe_index_put".split())
"""Operators that read the value of a zero-dimensional tensor from any device, their last tensor, if they write another.

Source: aten/src/ATen/native/Fill.cpp; TensorAdvancedIndexing.cpp, `index_fill_` and `_index_put_impl_`.
"""

INDEXING = frozenset("index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put".split())

# -- ordering

SILENT = frozenset(
    """mm addmm bmm baddbmm addmv mv dot vdot addr cat stack
    native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward native_batch_norm
    native_batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward _fused_rms_norm _fused_rms_norm_backward
    sum mean prod amax amin aminmax argmax argmin any all var var_mean std std_mean logsumexp linalg_vector_norm norm
    cumsum max min _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data
    nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward embedding
    convolution convolution_backward cudnn_convolution max_pool2d_with_indices max_pool2d_with_indices_backward
    avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward constant_pad_nd
    upsample_nearest2d upsample_bilinear2d native_dropout native_dropout_backward _fused_dropout
    bernoulli_ uniform_ normal_ fill_ zero_ copy_ _to_copy zeros ones full zeros_like ones_like full_like
    new_zeros new_ones new_full empty empty_like empty_strided new_empty new_empty_strided rand randn rand_like
    randn_like arange tril triu flip roll index_select gather scatter_ scatter_add_ masked_fill_
    slice_backward select_backward _fused_adam_ _fused_adamw_ _fused_sgd_
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward""".split()
)
"""Operators that, on strided tensors, neither record an event, nor wait for one, nor make the host wait.

The same holds for operators tagged `pointwise` and for `_foreach_` operators, except for a few that read a number from
a tensor.
Source: aten/src/ATen/native/cuda; tests/gpu/test_silent.py runs torch's own samples of them.
"""

LAZY = frozenset(
    """mm addmm bmm baddbmm addbmm addmv mv dot vdot convolution convolution_backward cudnn_convolution
    cudnn_batch_norm _fft_r2c _fft_c2c _fft_c2r _scaled_mm _cudnn_rnn linalg_cholesky_ex linalg_lu_factor_ex
    _linalg_svd _linalg_eigh linalg_qr lstm gru""".split()
)
"""Operators that use libraries which initialize themselves at first use; that must not happen in a graph capture.

Source: PyTorch notes, "CUDA semantics", section "CUDA Graphs", constraint "warm up before capture"; cuBLAS, cuDNN,
cuFFT and cuSOLVER create their handles at first use.
"""

_DISPLAY_NAMES = {
    "_local_scalar_dense": "reading a value, as `.item()` does,",
    "index": "an index with a boolean mask",
    "index_put_": "an assignment with a boolean mask",
}


def is_lazy(operator: str) -> bool:
    """Return whether an operator, such as "aten::mm", initializes something at first use; a custom operator may."""
    namespace, _, name = operator.partition("::")
    if namespace not in {"aten", "prims", "torch.cuda._sleep"}:
        return True  # it may build, tune or allocate at first use
    return name.partition(".")[0].rstrip("_") in LAZY


def display_name(call: str) -> str:
    """Return the users' name for an operator that makes the host wait; any other call without "aten::"."""
    name = call.removeprefix("aten::")
    return _DISPLAY_NAMES.get(name, name)
