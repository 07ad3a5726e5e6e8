"""`torch.nn.SyncBatchNorm` computes on the parts of a batch what `BatchNorm` computes on the whole."""

import pytest
import torch
from torch.testing import assert_close

from syncheck.sim.cuda_kernels import KERNELS

aten = torch.ops.aten
EPS, MOMENTUM = 1e-5, 0.3


def kernel(name):
    return KERNELS[getattr(aten, name).default]


@pytest.fixture(params=[(6, 3), (6, 3, 4), (6, 3, 4, 5)], ids=str)
def batch(request):
    torch.manual_seed(0)
    values = torch.randn(request.param, dtype=torch.double) * 3 + 1
    return values, torch.randn(request.param, dtype=torch.double)


def whole(values, gradient, weight, bias):
    """Return `batch_norm`'s result, gradients of values, weight and bias, and running mean and variance."""
    running = torch.zeros(3, dtype=torch.double), torch.ones(3, dtype=torch.double)
    leaves = [leaf.clone().requires_grad_() for leaf in (values, weight, bias)]
    result = torch.nn.functional.batch_norm(leaves[0], *running, *leaves[1:], training=True, momentum=MOMENTUM, eps=EPS)
    return result.detach(), *torch.autograd.grad(result, leaves, gradient), *running


def test_parts_of_unequal_size_give_the_result_of_the_whole_batch(batch):
    values, gradient = batch
    weight, bias = torch.tensor([0.5, -2.0, 3.0]).double(), torch.tensor([1.0, 0.0, -1.0]).double()
    expected = whole(values, gradient, weight, bias)
    parts, gradients = values.split([4, 2]), gradient.split([4, 2])
    stats = [kernel("batch_norm_stats")(part, EPS) for part in parts]
    counts = torch.tensor([part.numel() // 3 for part in parts])
    running = torch.zeros(3, dtype=torch.double), torch.ones(3, dtype=torch.double)
    mean, invstd = kernel("batch_norm_gather_stats_with_counts")(
        parts[0], *map(torch.stack, zip(*stats, strict=True)), *running, MOMENTUM, EPS, counts
    )
    result = [kernel("batch_norm_elemt")(part, weight, bias, mean, invstd, EPS) for part in parts]
    reduced = [
        kernel("batch_norm_backward_reduce")(g, part, mean, invstd, weight, True, True, True)
        for g, part in zip(gradients, parts, strict=True)
    ]
    total, product, of_weight, of_bias = (sum(column) for column in zip(*reduced, strict=True))
    of_values = [
        kernel("batch_norm_backward_elemt")(g, part, mean, invstd, weight, total, product, counts)
        for g, part in zip(gradients, parts, strict=True)
    ]
    assert_close((torch.cat(result), torch.cat(of_values), of_weight, of_bias, *running), expected)


def test_a_single_count_applies_to_all_ranks():
    stats = torch.tensor([[1.0], [3.0]]), torch.tensor([[1.0], [0.5]])
    one = kernel("batch_norm_gather_stats")(torch.ones(0), *stats, None, None, 0.1, EPS, 4)
    many = kernel("batch_norm_gather_stats_with_counts")(
        torch.ones(0), *stats, None, None, 0.1, EPS, torch.tensor([4, 4])
    )
    assert_close(one, many)


def test_half_precision_has_float32_statistics():
    values = torch.randn(4, 2).half()
    mean, invstd = kernel("batch_norm_stats")(values, EPS)
    assert mean.dtype == invstd.dtype == torch.float32
    assert kernel("batch_norm_elemt")(values, None, None, mean, invstd, EPS).dtype == torch.half


def test_unneeded_gradients_are_none():
    values, stats = torch.randn(4, 2), (torch.zeros(2), torch.ones(2))
    assert kernel("batch_norm_backward_reduce")(values, values, *stats, None, False, False, False) == (None,) * 4


def test_values_are_normalized_without_weight_and_bias():
    values = torch.randn(8, 2) * 5
    result = kernel("batch_norm_elemt")(values, None, None, *kernel("batch_norm_stats")(values, EPS), EPS)
    assert_close(result, torch.nn.functional.batch_norm(values, None, None, training=True, eps=EPS))
