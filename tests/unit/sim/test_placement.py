"""Placement of operators on devices."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from syncheck.instrument.torch_internals import disable_dispatch_modes


def test_an_operator_runs_on_the_device_of_its_tensors(gpus):
    assert (torch.ones(2, device="cuda:1") + 1).device.index == 1
    assert (torch.ones(2, device="cuda:1") + torch.tensor(2.0)).device.index == 1  # a scalar may be on the CPU


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1"), "cuda:0 and cuda:1!"),
        (lambda: torch.ones(2, device="cuda:0") + torch.ones(2), "cuda:0 and cpu!"),
        (lambda: torch.ones(2)[torch.tensor([0], device="cuda:0")], "indices should be either on cpu"),
        (lambda: torch.ones(2, device="cuda:0")[torch.tensor([0], device="cuda:1")], r"\(cuda:0\)"),
    ],
    ids=["two GPUs", "a GPU and the CPU", "an index", "an index of another GPU"],
)
def test_mixing_devices_raises_torchs_error(gpus, work, message):
    with pytest.raises(RuntimeError, match=message):
        work()


@pytest.mark.parametrize(
    "work",
    [
        lambda x, index: torch.stack([x[0], torch.tensor(1.0)]),
        lambda x, index: torch.nn.functional.embedding(index, x[:, None]),
        lambda x, index: x.index_select(0, index),
        lambda x, index: x.gather(0, index),
        lambda x, index: x.scatter(0, index, 2.0),
        torch.nn.functional.cross_entropy,
    ],
    ids="stack embedding index_select gather scatter cross_entropy".split(),
)
def test_some_operators_reject_a_host_scalar(gpu, work):
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="cuda:0 and cpu!"):
        work(x, torch.tensor(1))


def test_indices_may_be_on_the_cpu(gpu):
    assert torch.arange(3.0, device="cuda")[torch.tensor([2, 0])].tolist() == [2, 0]


def test_an_explicit_device_takes_precedence_over_that_of_the_tensors(gpus):
    assert torch.zeros_like(torch.ones(2, device="cuda:0"), device="cuda:1").device.index == 1


def test_tensors_created_by_the_engine_are_on_their_nodes_device(gpus):
    w = torch.ones(3, device="cuda:1", requires_grad=True)
    used, unused = w.unbind()[:2]
    (used * 2).backward()
    assert w.grad.device.index == 1
    assert w.grad.tolist() == [2, 0, 0]
    assert unused.device.index == 1


def test_a_traced_function_is_unchanged(gpu):
    def make():
        return torch.ones(2, device="cpu") + torch.zeros(2)

    with disable_dispatch_modes():
        plain = make_fx(make)().code
    assert make_fx(make)().code == plain


def test_a_sparse_gradient_without_rows_is_created(gpu):
    weight = torch.ones(0, 5, requires_grad=True)
    torch.nn.functional.embedding(torch.zeros(0, dtype=torch.long), weight, sparse=True).sum().backward()
    assert weight.grad.is_sparse
