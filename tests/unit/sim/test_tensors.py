"""`torch.Tensor` with virtual devices: where a tensor is, and how it moves."""

import pytest
import torch
from torch.autograd import forward_ad

from syncheck.sim.tensors import _parse_to, as_device

CUDA = torch.device("cuda", 1)


def test_a_tensor_knows_its_device(gpus):
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
def test_a_move_is_asked_for_in_three_forms(args, kwargs, device, options):
    assert _parse_to(args, kwargs) == (device, options)


def test_devices_are_given_as_torch_takes_them():
    assert as_device(None) is None
    assert as_device(1) == as_device("cuda:1") == as_device(CUDA) == CUDA


def test_a_tensor_that_is_there_stays_itself(gpus):
    x = torch.ones(3, device="cuda:1")
    assert x.to("cuda:1") is x.cuda(1) is x.to(CUDA, torch.float32) is x
    assert x.to("cuda:1", copy=True) is not x
    assert x.to(torch.half).device == CUDA
    assert x.type_as(torch.ones(1).half()).device.type == "cpu"


def test_gradients_go_back_the_same_way(gpus):
    w = torch.ones(3, requires_grad=True)
    (w.to("cuda:0").half().to("cuda:1") * 2).sum().backward()
    assert (w.grad.device.type, w.grad.tolist()) == ("cpu", [2, 2, 2])
    target = torch.zeros(3, device="cuda:1")
    (target.copy_(w) * 3).sum().backward()
    assert w.grad.tolist() == [5, 5, 5]


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # made by torch.func itself
def test_a_tangent_goes_the_same_way(gpus):
    x, tangent = torch.ones(3, device="cuda:0"), torch.tensor([1.0, 2.0, 3.0], device="cuda:0")
    for target in ("cuda:1", "cpu"):
        moved, along = torch.func.jvp(lambda x, target=target: x.to(target) * 2, (x,), (tangent,))
        assert (along.device, along.tolist()) == (moved.device, [2, 4, 6])
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, tangent)
            assert forward_ad.unpack_dual(dual.to(target) * 2).tangent.tolist() == [2, 4, 6]
            into = torch.zeros(3, device=target)
            into.copy_(dual)
            assert forward_ad.unpack_dual(into).tangent.tolist() == [1, 2, 3]
            assert forward_ad.unpack_dual(x.to(target)).tangent is None


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # made by torch.func itself
@pytest.mark.parametrize("target", ["cuda:1", "cpu"])
def test_functions_of_functions_move_tensors(gpus, target):
    rows = torch.arange(6.0, device="cuda:0").reshape(2, 3)
    moved = torch.vmap(lambda row: row.to(target) * 2, in_dims=1)(rows)
    assert (str(moved.device), moved.tolist()) == (target, [[0, 6], [2, 8], [4, 10]])

    def cube(x):
        return (x.to(target) ** 3).sum()

    assert torch.func.grad(cube)(rows[1]).tolist() == [27, 48, 75]
    for jacobian in (torch.func.jacfwd, torch.func.jacrev):
        assert jacobian(cube)(rows[1]).tolist() == [27, 48, 75]
    assert torch.func.hessian(cube)(rows[1]).diagonal().tolist() == [18, 24, 30]


def test_a_gradient_goes_back_through_pinning(gpu):
    h = torch.ones(3, requires_grad=True)
    pinned = h.pin_memory()
    assert pinned.is_pinned()
    (pinned * 2).sum().backward()
    assert h.grad.tolist() == [2, 2, 2]
    with torch.no_grad():
        assert not h.pin_memory().requires_grad


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


def test_other_devices_are_torchs_own_business(gpu):
    assert torch.ones(3, device="cuda").to("meta").device.type == "meta"
    with pytest.raises(NotImplementedError, match="meta"):
        torch.ones(3, device="meta").to("cuda")


def test_record_stream_is_for_gpus(gpu):
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


def test_a_module_moves_to_where_a_tensor_is(gpus):
    net = torch.nn.Linear(2, 2)
    assert net.to(torch.ones(1, device="cuda:1")).weight.device == CUDA
    assert net.to(0).weight.device.index == 0
    assert net.to(device=1).weight.device == CUDA
    assert net.to(tensor=torch.ones(1).half()).weight.dtype == torch.half
