"""Torch's samples compute the same on simulated GPUs as on the CPU, with gradients and in inference mode."""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from syncheck.instrument.torch_internals import disable_dispatch_modes
from tests.torch_samples import are_alike, comparable_samples

pytestmark = pytest.mark.filterwarnings("ignore")

RANDOM = ("log_normal", "uniform", "svd_lowrank", "pca_lowrank", "nn.functional.multi_head_attention_forward")
RANDOM_IN_TRAINING = ("rrelu", "dropout", "fractional_max_pool")


def result(entry, sample, device):
    """Return an operator's results and input gradients, on the CPU, or its error."""
    leaves = []

    def moved(value):
        if not isinstance(value, torch.Tensor):
            return value
        copy = value.detach().clone().to(device)
        if entry.supports_autograd and not torch.is_inference_mode_enabled():
            leaves.append(copy.requires_grad_(copy.is_floating_point() or copy.is_complex()))
        return copy

    given, args, kwargs = tree_map(moved, (sample.input, sample.args, sample.kwargs))
    try:
        results = [leaf for leaf in tree_leaves(entry.op(given, *args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        total = sum(r.abs().double().sum() for r in results if r.requires_grad and r.layout is torch.strided)
        if isinstance(total, torch.Tensor):
            total.backward()
    except (RuntimeError, TypeError, ValueError) as error:
        return [str(error)]
    found = results + [leaf.grad for leaf in leaves if leaf.grad is not None]
    return [tensor.detach().resolve_conj().cpu() for tensor in found]


@pytest.mark.parametrize("context", [nullcontext, pytest.param(torch.inference_mode, marks=pytest.mark.slow)])
def test_operators_give_the_same_results_on_simulated_gpus(context, gpu, operator_table):
    changed, n_compared = set(), 0
    for entry, sample in comparable_samples(operator_table, "cpu", 2):
        if entry.name in RANDOM or any(word in entry.name for word in RANDOM_IN_TRAINING):
            continue
        with context():
            with disable_dispatch_modes():  # with modes enabled, the CPU tensors would take the same path
                first, second = result(entry, sample, "cpu"), result(entry, sample, "cpu")
            if are_alike(first, second):
                n_compared += 1
                if not are_alike(first, result(entry, sample, "cuda")):
                    changed.add(entry.full_name)
    assert changed == set()
    assert n_compared > 1000
