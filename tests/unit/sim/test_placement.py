"""Placement of operators on devices."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from syncheck.instrument.torch_internals import disable_dispatch_modes


def test_an_operator_runs_on_the_device_of_its_tensors(gpus):
    assert (torch.ones(2, device="cuda:1") + 1).device.index == 1
    assert (torch.ones(2, device="cuda:1") + torch.tensor(2.0)).device.index == 1  # a scalar may be on the CPU


def assign(target, index, value):
    target[index] = value
    return target


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1"), "cuda:0 and cuda:1!"),
        (lambda: torch.ones(2, device="cuda:0") + torch.ones(2), "cuda:0 and cpu!"),
        (lambda: torch.ones(2)[torch.tensor([0], device="cuda:0")], "indices should be either on cpu"),
        (lambda: torch.ones(2, device="cuda:0")[torch.tensor([0], device="cuda:1")], r"\(cuda:0\)"),
        (lambda: assign(torch.ones(3), [0, 1], torch.ones(2, device="cuda")), "cuda:0 and cpu!"),
        (lambda: assign(torch.ones(3, device="cuda"), [0, 1], torch.ones(2)), "cuda:0 and cpu!"),
        (lambda: torch._foreach_mul([torch.ones(2)], torch.tensor(2.0, device="cuda")), "cuda:0 and cpu!"),
    ],
    ids=[
        "two GPUs",
        "a GPU and the CPU",
        "an index",
        "an index of another GPU",
        "a value",
        "a value on the CPU",
        "a list",
    ],
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
        torch.searchsorted,
        lambda x, index: torch.bucketize(index, x),
        lambda x, index: torch.normal(x, torch.tensor(1.0)),
        lambda x, index: torch.polar(x, torch.tensor(1.0)),
    ],
    ids="stack embedding index_select gather scatter cross_entropy searchsorted bucketize normal polar".split(),
)
def test_some_operators_reject_a_host_scalar(gpu, work):
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="cuda:0 and cpu!"):
        work(x, torch.tensor(1))


@pytest.mark.parametrize(
    "index",
    [slice(0, 2), torch.tensor([0, 1]), [0, 1], torch.tensor([True, True, False])],
    ids=["slice", "tensor", "list", "mask"],
)
def test_the_number_in_a_gpu_tensor_may_be_assigned_to_a_host_tensor(gpu, index):
    """Observed on an H200 with torch 2.11."""
    value = torch.tensor(4.0, device="cuda")
    host = torch.zeros(3)
    host[index] = value
    assert host.tolist() == [4, 4, 0]


@pytest.mark.parametrize(
    "work",
    [
        lambda host, value: host.fill_(value),
        lambda host, value: host.index_fill_(0, torch.tensor([0, 1, 2]), value),
        lambda host, value: host.index_put_((torch.tensor([0, 1, 2]),), value, accumulate=True),
    ],
    ids=["fill_", "index_fill_", "index_put_"],
)
def test_an_operator_on_a_host_tensor_reads_a_number_from_a_gpu(gpu, work):
    assert work(torch.zeros(3), torch.tensor(4.0, device="cuda")).tolist() == [4, 4, 4]


def test_a_mask_on_a_gpu_selects_elements_of_a_host_tensor_for_a_number(gpu):
    assert assign(torch.zeros(3), torch.tensor([True, False, True], device="cuda"), 1.0).tolist() == [1, 0, 1]


def test_a_host_tensor_with_one_element_may_be_assigned_to_a_gpu_tensor(gpu):
    index = torch.tensor([0, 2], device="cuda")
    assert assign(torch.zeros(3, device="cuda"), index, torch.tensor([4.0])).tolist() == [4, 0, 4]


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


@pytest.mark.parametrize(
    "create",
    [
        lambda **kwargs: torch.empty(2, device="cuda", **kwargs),
        lambda **kwargs: torch.ones(2, device="cuda").new_empty((2,), **kwargs),
        lambda **kwargs: torch.zeros_like(torch.ones(2, device="cuda"), **kwargs),
    ],
    ids=["empty", "new_empty", "zeros_like"],
)
def test_memory_of_a_gpu_cannot_be_pinned(gpu, create):
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        create(pin_memory=True)


def test_host_memory_like_that_of_a_gpu_can_be_pinned(gpu):
    assert torch.ones(2, device="cuda").new_empty((2,), device="cpu", pin_memory=True).is_pinned()
