"""The kind of GPUs that is simulated."""

import pytest
import torch

from syncheck.sim import device_kind


@pytest.fixture(autouse=True)
def restore_kind():
    name = device_kind.simulated().name
    yield
    device_kind.choose(name)


@pytest.mark.parametrize("name", ["cuda", "xpu"])
def test_all_queries_use_the_chosen_kind(name):
    device_kind.choose(name)
    assert device_kind.simulated().name == name
    assert device_kind.module() is getattr(torch, name)
    assert device_kind.gpu() == torch.device(name)
    assert device_kind.gpu(1) == torch.device(name, 1)
    assert device_kind.is_gpu(torch.device(name, 1))
    assert not device_kind.is_gpu(torch.device("cpu"))
    assert not device_kind.is_on_gpu(torch.ones(1))


def test_an_unknown_kind_is_rejected():
    with pytest.raises(KeyError):
        device_kind.choose("npu")


@pytest.mark.parametrize("kind", device_kind.KINDS.values(), ids=lambda kind: kind.name)
def test_kind_numbers_match_torch(kind):
    assert getattr(torch._C._autograd.DeviceType, kind.title).value == kind.number
