"""`torch.Tensor` on virtual devices: placement and moves."""

import pytest
import torch

from syncheck.sim.tensors import _parse_to, as_device

CUDA = torch.device("cuda", 1)


def test_a_tensor_reports_its_device(gpus):
    x = torch.ones(3, device="cuda:1")
    assert (x.device, x.is_cuda, x.is_cpu, x.get_device()) == (CUDA, True, False, 1)
    assert torch.ones(3).is_cpu
    assert torch.ones(3, device="meta").device.type == "meta"


@pytest.mark.parametrize(
    ("args", "kwargs", "device", "options"),
    [
        (("cuda:1",), {}, CUDA, {}), ((CUDA, torch.half), {}, CUDA, {"dtype": torch.half}),
        ((torch.half,), {}, None, {"dtype": torch.half}), ((1,), {"non_blocking": True}, CUDA, {"non_blocking": True}),
        ((CUDA, None, True), {}, CUDA, {"non_blocking": True}), ((None,), {"device": CUDA}, CUDA, {}),
        ((torch.half, True, True), {}, None, {"dtype": torch.half, "non_blocking": True, "copy": True}),
        ((torch.ones(1).half(),), {}, torch.device("cpu"), {"dtype": torch.half}),
        ((True,), {"dtype": torch.half}, None, {"dtype": torch.half, "non_blocking": True}),
    ],
    ids=str,
)  # fmt: skip
def test_a_move_can_be_requested_in_three_forms(args, kwargs, device, options):
    assert _parse_to(args, kwargs) == (device, options)


def test_devices_are_parsed_like_torch_does():
    assert as_device(None) is None
    assert as_device(1) == as_device("cuda:1") == as_device(CUDA) == CUDA


def test_a_tensor_already_in_place_is_returned_unchanged(gpus):
    x = torch.ones(3, device="cuda:1")
    assert x.to("cuda:1") is x.cuda(1) is x.to(CUDA, torch.float32) is x
    assert x.to("cuda:1", copy=True) is not x
    assert x.to(torch.half).device == CUDA
    assert x.type_as(torch.ones(1).half()).device.type == "cpu"


def test_a_gradient_is_on_the_device_of_its_tensor(gpus):
    x = torch.ones(3, device="cuda:0", requires_grad=True)
    for device in ("cpu", "cuda:1"):
        with pytest.raises(RuntimeError, match="assign a gradient"):
            x.grad = torch.ones(3, device=device)
    x.grad = torch.ones(3, device="cuda:0")
    assert x.grad.tolist() == [1, 1, 1]
    x.grad = None
    assert x.grad is None
    del x.grad


def test_other_devices_are_left_to_torch(gpu):
    assert torch.ones(3, device="cuda").to("meta").device.type == "meta"
    with pytest.raises(NotImplementedError, match="meta"):
        torch.ones(3, device="meta").to("cuda")


def test_record_stream_requires_a_gpu_tensor(gpu):
    x, s = torch.ones(3, device="cuda"), torch.cuda.Stream()
    assert gpu.calls_of(lambda: x.record_stream(s)) == ["record_stream 1 s1"]
    with pytest.raises(NotImplementedError, match="'aten::record_stream'"):
        torch.ones(3).record_stream(s)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_sparse_tensor_moves_with_its_parts(gpu):
    sparse = torch.eye(3).to_sparse().to("cuda")
    assert sparse.values().is_cuda
    assert sparse.is_coalesced()
    assert sparse.cpu().to_dense().tolist() == torch.eye(3).tolist()


def test_a_module_moves_to_the_device_of_a_tensor(gpus):
    net = torch.nn.Linear(2, 2)
    assert net.to(torch.ones(1, device="cuda:1")).weight.device == CUDA
    assert net.to(0).weight.device.index == 0
    assert net.to(device=1).weight.device == CUDA
    assert net.to(tensor=torch.ones(1).half()).weight.dtype == torch.half


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("kind", "dtype"), [(bool, torch.bool), (int, torch.int64), (float, torch.float64), (complex, torch.complex128)]
)
def test_python_types_stand_for_dtypes(gpu, device, kind, dtype):
    x = torch.ones(2, device=device)
    made = [
        x.to(kind),
        x.to(dtype=kind),
        x.to(device, kind),
        torch.as_tensor(x, dtype=kind),
        x.new_tensor([1], dtype=kind),
    ]
    assert {(one.dtype, one.device) for one in made} == {(dtype, x.device)}


def test_lazy_modules_have_a_device(gpu):
    layer = torch.nn.LazyBatchNorm1d(device="cuda")
    assert layer(torch.ones(4, 3, device="cuda")).is_cuda
    on_host = torch.nn.LazyBatchNorm1d()
    assert on_host(torch.ones(4, 3)).is_cpu
