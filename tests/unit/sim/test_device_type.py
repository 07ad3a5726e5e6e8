"""`torch.device` accepts the bare index of a virtual GPU."""

import pickle

import pytest
import torch

REAL = torch.device


def test_a_number_denotes_a_gpu(gpus):
    assert torch.device(1) == REAL("cuda", 1)
    assert torch.device("cuda:1") == REAL("cuda", 1)
    assert torch.device("cuda", 1) == torch.device(type="cuda", index=1)
    assert torch.device("cpu").type == "cpu"


def test_its_objects_are_torchs_own(gpu):
    assert isinstance(torch.device("cpu"), torch.device)
    assert isinstance(REAL("cpu"), torch.device)
    assert torch.device == REAL
    assert hash(torch.device) == hash(REAL)
    assert not isinstance("cpu", torch.device)


def test_devices_can_be_pickled(gpu):
    assert pickle.loads(pickle.dumps(torch.device("cuda", 0))) == REAL("cuda", 0)


def test_the_original_class_is_restored():
    assert torch.device is REAL


def test_a_function_mode_of_the_program_takes_precedence(gpu):
    class OtherDeviceMode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func("xla", *args) if func is torch.device else func(*args, **(kwargs or {}))

    with OtherDeviceMode():
        assert torch.device(0).type == "xla"
    assert torch.device(0).type == "cuda"


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_a_function_with_torchs_original_class_can_be_scripted(gpu):
    def moved(x: torch.Tensor, target: REAL | None = None) -> torch.Tensor:
        return x if target is None else x.to(target)

    assert torch.jit.script(moved)(torch.ones(2), torch.device("cpu")).tolist() == [1, 1]
