"""Gradients of `flex_attention`, also of tensors that its functions capture."""

import pytest
import torch
from torch._higher_order_ops import flex_attention as operator
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from syncheck.instrument.patching import Patches
from syncheck.sim.flex_attention import install_flex_attention

pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore:return_lse is deprecated"),
]


def causal(batch, head, i, j):
    return i >= j


def attention(query, bias):
    """Return what flex_attention returns for a causal mask and a bias of each column, and its logarithms."""
    scores = query @ query.transpose(-1, -2) / query.size(-1) ** 0.5 + bias
    rows = torch.arange(query.size(-2), device=query.device)
    scores = scores.masked_fill(rows[:, None] < rows, -torch.inf)
    return scores.softmax(-1) @ query, scores.logsumexp(-1)


def flexible(query, bias):
    mask = create_block_mask(causal, None, None, query.size(-2), query.size(-2), device=str(query.device))
    return flex_attention(query, query, query, lambda score, b, h, i, j: score + bias[j], mask, return_lse=True)


@pytest.mark.parametrize("n_trained", [1, 2], ids=["captured only", "inputs, too"])
def test_captured_tensors_have_the_same_gradients_as_in_plain_attention(gpu, n_trained):
    trained = [torch.randn(128, device="cuda"), torch.randn(1, 2, 128, 8, device="cuda")]
    for tensor in trained[:n_trained]:
        tensor.requires_grad_()
    bias, query = trained
    gradients = []
    for attend in (flexible, attention):
        output, logarithm = attend(query, bias)
        loss = output.square().sum() + logarithm.sum()
        gradients.append(torch.autograd.grad(loss, trained[:n_trained]))
    torch.testing.assert_close(*gradients)
    assert all(gradient.is_cuda for gradient in gradients[0])


def test_the_attention_of_the_host_is_left_to_torch(gpu):
    query, bias = torch.ones(1, 1, 128, 8), torch.ones(128)
    with torch.no_grad():
        torch.testing.assert_close(flexible(query, bias), attention(query, bias))


def test_a_mask_without_its_columns_has_no_backward_pass(gpu):
    query = torch.ones(1, 1, 128, 8, device="cuda", requires_grad=True)
    mask = create_block_mask(causal, None, None, 128, 128, device="cuda")
    mask.q_indices = None
    with pytest.raises(RuntimeError, match="q_indices is None"):
        flex_attention(query, query, query, block_mask=mask)


def test_torchs_derivative_is_restored():
    kernels, patches = operator.py_kernels, Patches()
    install_flex_attention(patches)
    assert operator.py_kernels != kernels
    patches.undo()
    assert operator.py_kernels is kernels
