"""Reads of tensors by the host."""

import pickle

import pytest
import torch

from syncheck.sim.errors import NotSimulatedError


@pytest.fixture
def pinned(gpu):
    return torch.ones(3).pin_memory()


@pytest.mark.parametrize(
    ("read", "call"),
    [
        (lambda h: h.tolist(), "host Tensor.tolist() r1"),
        (lambda h: h.numpy(), "escape Tensor.numpy() r1"),
        (repr, "host printing r1"),
        (pickle.dumps, "host pickling r1"),
        (lambda h: h.__dlpack__(), "escape Tensor.__dlpack__() r1"),
        (lambda h: [torch.to_dlpack(one) for one in (h,)], "escape Tensor.__dlpack__() r1"),
    ],
    ids=["tolist", "numpy", "repr", "pickle", "dlpack", "to_dlpack"],
)
def test_reads_of_memory_that_a_stream_may_use_are_reported(gpu, pinned, read, call):
    assert call in gpu.calls_of(lambda: read(pinned))


def test_plain_host_memory_is_not_reported(gpu):
    x = torch.ones(3)
    assert gpu.calls_of(lambda: (x.tolist(), x.numpy(), repr(x), x.data_ptr())) == []


def test_values_on_a_gpu_are_copied_first(gpu):
    x = torch.ones(3, device="cuda")
    for read in (x.tolist, lambda: repr(x), lambda: x.numpy(force=True)):
        assert "sync cuda:0" in gpu.calls_of(read)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    with pytest.raises(NotSimulatedError, match="DLPack"):
        x.__dlpack__()
    for module in (torch, torch.utils.dlpack):
        with pytest.raises(NotSimulatedError, match="DLPack"):
            module.to_dlpack(x)


def test_an_exported_address_is_remembered(gpu, pinned):
    assert gpu.calls_of(pinned.data_ptr) == []
    assert gpu.runtime.memory.of(pinned).exported


def test_an_overriding_subclass_takes_precedence(gpu):
    class OverridingTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "mine" if func.__name__ == "tolist" else super().__torch_function__(func, types, args, kwargs or {})

    assert torch.ones(3).as_subclass(OverridingTensor).tolist() == "mine"


def test_the_address_of_a_gpu_tensor_is_not_given_to_other_libraries(gpu):
    with pytest.raises(NotSimulatedError, match="its data is in host memory"):
        torch.ones(3, device="cuda").__cuda_array_interface__  # noqa: B018  a property
    assert not hasattr(torch.ones(3), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(3, device="cuda", requires_grad=True).__cuda_array_interface__  # noqa: B018
