"""Functions of `torch.cuda` and `torch.accelerator`."""

import pytest
import torch

from syncheck.sim.cuda_api import CUDA_VERSION, UNSUPPORTED
from syncheck.sim.errors import NotSimulatedError
from tests.unit.sim.conftest import watched

BUILT_FOR = torch.version.cuda  # None for a CPU build


def test_devices_are_counted_and_selected(gpus):
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    torch.cuda.set_device(1)
    assert torch.cuda.current_device() == 1
    torch.cuda.set_device(-1)
    assert torch.cuda.current_device() == 1
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0
    assert torch.cuda.current_device() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(2)


def test_streams_are_looked_up_and_set(gpus):
    s = torch.cuda.Stream(device=1)
    torch.cuda.set_stream(s)
    assert torch.cuda.current_stream() == s
    assert torch.cuda.current_device() == 1
    assert str(torch.cuda.current_stream().origin) == "current_stream"
    assert str(torch.cuda.default_stream(1).origin) == "default_stream"
    assert torch._C._cuda_getCurrentRawStream(1) == s.cuda_stream


def test_synchronize_waits_for_a_device(gpus):
    assert gpus.calls_of(lambda: torch.cuda.synchronize(1)) == ["sync device 1"]
    assert gpus.calls_of(torch.cuda.synchronize) == ["sync device 0"]


def test_cuda_sleep_accesses_no_memory(gpu):
    assert gpu.calls_of(lambda: torch.cuda._sleep(100)) == ["launch cuda:0 torch.cuda._sleep"]


def test_the_accelerator_is_cuda(gpus):
    assert torch.accelerator.current_accelerator().type == "cuda"
    assert torch.accelerator.device_count() == 2
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_device_index() == 1
    assert torch.accelerator.current_stream() == torch.cuda.current_stream()


@pytest.mark.parametrize("name", [name for name in UNSUPPORTED if hasattr(torch.cuda, name)])
def test_functions_without_a_meaning_in_simulation_are_rejected(gpu, name):
    with pytest.raises(NotSimulatedError):
        getattr(torch.cuda, name)(None)


def test_capability_queries_are_answered(gpus):
    assert torch.version.cuda == (BUILT_FOR or CUDA_VERSION)
    assert torch.cuda.can_device_access_peer(0, 1)
    assert not torch.cuda.can_device_access_peer(1, 1)
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.backends.cuda.is_built()
    assert torch.backends.cudnn.is_available()
    assert torch.backends.cudnn.version() > 90000
    assert torch.cuda._get_device_index("cuda:1") == 1
    assert torch.cuda._get_device_index(9) == 9  # its caller reports the error
    with pytest.raises(ValueError, match=r"Expected a torch\.device with a specified index"):
        torch.cuda._get_device_index(None)


def test_a_cuda_build_keeps_its_version(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for _ in watched(1):
        assert torch.version.cuda == "13.0"


def test_functions_keep_their_names(gpu):
    assert torch.cuda.synchronize.__name__ == "synchronize"
    assert torch.cuda.current_stream.__name__ == "current_stream"
