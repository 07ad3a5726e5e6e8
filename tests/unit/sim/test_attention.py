"""The GPU's attention operators give the results of attention."""

import pytest
import torch
from torch.testing import assert_close

from syncheck.sim.attention import is_sharded, run_sharded
from syncheck.sim.errors import NotSimulatedError

aten = torch.ops.aten


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    return [torch.randn(1, 2, 4, 8, device="cuda") for _ in range(3)]


def test_the_operator_gives_the_results_of_attention(gpu, inputs):
    output, logsumexp, *others = aten._scaled_dot_product_flash_attention(*inputs, 0.0, True, scale=0.5)
    leaves = [x.clone().requires_grad_() for x in inputs]
    expected = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True, scale=0.5)
    assert_close(output, expected.detach())
    assert (output.is_cuda, logsumexp.shape, others[2:4]) == (True, (1, 2, 4), [4, 4])
    expected.sum().backward()
    gradients = aten._scaled_dot_product_flash_attention_backward(
        torch.ones_like(output), *inputs, output, logsumexp, *others[:4], 0.0, True, *others[4:6], scale=0.5
    )
    assert_close(gradients, tuple(leaf.grad for leaf in leaves))


def test_attention_of_plain_tensors_is_not_sharded(gpu, inputs):
    assert not is_sharded(aten._scaled_dot_product_flash_attention_for_cpu.default, tuple(inputs))


def test_sharded_attention_with_a_mask_is_not_simulated(gpu, inputs):
    operator = aten._scaled_dot_product_flash_attention_for_cpu.default
    with pytest.raises(NotSimulatedError, match="with a mask"):
        run_sharded(operator, tuple(inputs), {"attn_mask": torch.zeros(4, 4)})


def test_dropout_is_not_simulated(gpu, inputs):
    with pytest.raises(NotSimulatedError, match="is not simulated"):
        aten._scaled_dot_product_flash_attention(*inputs, 0.5)
