"""Copies between the host and devices."""

import pytest
import torch


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (lambda h, p: p.to("cuda"), ["allocate 2 on cuda:0", "launch cuda:0 copy_ w2", "sync cuda:0"]),
        (lambda h, p: h.to("cuda"), ["allocate 2 on cuda:0", "launch cuda:0 copy_ r1 w2", "sync cuda:0"]),
        (lambda h, p: h.to("cuda", non_blocking=True), ["allocate 2 on cuda:0", "launch cuda:0 copy_ r1 w2"]),
        (
            lambda h, p: p.to("cuda", non_blocking=True),
            ["allocate 2 on cuda:0", "pageable_copy", "launch cuda:0 copy_ w2"],
        ),
        (
            lambda h, p: torch.empty(4, device="cuda").copy_(5),
            ["allocate 2 on cuda:0", "launch cuda:0 copy_ w2", "sync cuda:0"],
        ),
        (
            lambda h, p: torch.empty(4, device="cuda").copy_(h),
            ["allocate 2 on cuda:0", "launch cuda:0 copy_ r1 w2", "sync cuda:0"],
        ),
    ],
)
def test_copies_to_a_device(gpu, copy, expected):
    h, p = torch.ones(4).pin_memory(), torch.ones(4)
    made = gpu.calls_of(lambda: copy(h, p))
    assert made[: len(expected)] == expected


@pytest.mark.parametrize("number", [5, 2.5, True])
def test_a_number_can_be_copied_into_any_tensor(gpu, number):
    x = torch.empty(2, 2, device="cuda")
    assert x.copy_(number) is x
    assert x.tolist() == [[number, number]] * 2
    assert torch.empty(2).copy_(number).tolist() == [number] * 2


def test_copies_to_the_host(gpu):
    x, h = torch.ones(4, device="cuda"), torch.ones(4).pin_memory()
    assert gpu.calls_of(x.cpu)[:2] == ["launch cuda:0 copy_ r1", "sync cuda:0"]
    assert gpu.calls_of(lambda: h.copy_(x, non_blocking=True)) == ["launch cuda:0 copy_ r1 w2"]
    pinned = x.to("cpu", non_blocking=True)
    assert pinned.is_pinned()
    assert pinned.tolist() == [1, 1, 1, 1]


def test_a_copy_with_a_gradient_is_one_copy_into_its_target(gpu):
    h, x = torch.zeros(4).pin_memory(), torch.ones(4, device="cuda", requires_grad=True) * 1
    assert gpu.calls_of(lambda: h.copy_(x, non_blocking=True)) == ["launch cuda:0 copy_ r3 w1"]
    assert gpu.codes() == []
    assert h.requires_grad
    h.detach().tolist()
    assert gpu.codes() == ["SYN301"]


def test_a_copy_between_devices_makes_both_streams_wait(gpus):
    x = torch.ones(4, device="cuda:0")
    made = gpus.calls_of(lambda: x.to("cuda:1"))
    assert made[:4] == [
        "allocate 2 on cuda:1", "wait cuda:0 for cuda:1 (torch)", "launch cuda:0 copy_ r1 w2",
        "wait cuda:1 for cuda:0 (torch)",
    ]  # fmt: skip


def test_a_copy_within_one_device_is_an_ordinary_operator(gpu):
    x, y = torch.ones(4, device="cuda"), torch.empty(4, device="cuda")
    assert gpu.calls_of(lambda: y.copy_(x)) == ["launch cuda:0 copy_ w2 r1"]


def test_lists_spanning_devices_are_copied_one_by_one(gpu):
    xs, hs = [torch.ones(4, device="cuda"), torch.ones(4)], [torch.zeros(4), torch.zeros(4)]
    torch._foreach_copy_(hs, xs)
    assert [h.tolist() for h in hs] == [[1] * 4] * 2


def test_pinning_copies_once_and_rejects_gpu_tensors(gpu):
    h = torch.ones(4)
    pinned = h.pin_memory()
    assert pinned.pin_memory() is pinned
    assert (h.is_pinned(), pinned.is_pinned()) == (False, True)
    with pytest.raises(RuntimeError, match="cannot pin"):
        torch.ones(4, device="cuda").pin_memory()


def test_an_empty_tensor_is_copied_without_work(gpu):
    made = gpu.calls_of(lambda: torch.empty(0).to("cuda"))
    assert not any(call.startswith(("launch", "sync")) for call in made)


def test_a_blocking_copy_during_capture_is_rejected(gpu):
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
            x.cpu()
        with pytest.raises(RuntimeError, match="previous error"):
            graph.capture_end()
