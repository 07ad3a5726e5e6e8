"""GPUs of this machine and missing torch features."""

import os
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.cuda._gpu_trace as gpu_trace

from syncheck.cuda import devices
from syncheck.errors import BackendError


def test_is_available_restores_the_environment(monkeypatch):
    seen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(seen.append(os.environ[devices._NVML_VARIABLE])))
    for before in (None, "0"):
        monkeypatch.delenv(devices._NVML_VARIABLE, raising=False)
        if before is not None:
            monkeypatch.setenv(devices._NVML_VARIABLE, before)
        assert devices.is_available() is False
        assert os.environ.get(devices._NVML_VARIABLE) == before
    assert seen == ["1", "1"]


@pytest.mark.parametrize(("count", "text"), [(1, "1 GPU"), (2, "2 GPUs")])
def test_describe_counts_gpus(monkeypatch, count, text):
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(devices, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert devices.describe() == text


@pytest.mark.parametrize(("cuda", "message"), [(None, "built without CUDA"), ("12.8", "finds no CUDA device")])
def test_a_missing_gpu_raises_an_error_with_a_hint(monkeypatch, cuda, message):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(devices, "is_available", lambda: False)
    with pytest.raises(BackendError, match=message) as error:
        devices.describe()
    assert "--backend sim" in error.value.hint


@pytest.mark.parametrize("enabled", [True, False])
def test_torchs_own_sanitizer_is_mutually_exclusive(monkeypatch, enabled):
    module = SimpleNamespace(cuda_sanitizer=SimpleNamespace(enabled=enabled))
    monkeypatch.setitem(sys.modules, "torch.cuda._sanitizer", module)
    if enabled:
        with pytest.raises(BackendError, match="both cannot check the same program"):
            devices.check_sanitizer()
    else:
        devices.check_sanitizer()


def test_missing_torch_features_are_listed(monkeypatch):
    monkeypatch.setattr(devices, "_c", SimpleNamespace())
    monkeypatch.setattr(devices, "driver", lambda: None)
    monkeypatch.delattr(gpu_trace, "EventWaitCallbacks")
    lacks = " ".join(devices.missing())
    assert "_cuda_getCurrentRawStream" in lacks
    assert "EventWaitCallbacks" in lacks
    assert "all external streams count as non-blocking" in lacks


def test_without_a_driver_streams_are_non_blocking_and_untimed(monkeypatch):
    monkeypatch.setattr(devices, "driver", lambda: None)
    assert not devices.is_blocking(7)
    assert devices.milliseconds(1, 2) is None


@pytest.mark.parametrize(("flags", "status", "blocking"), [(0, 0, True), (1, 0, False), (0, 700, False)])
def test_blocking_streams_are_identified_by_driver_flags(monkeypatch, flags, status, blocking):
    def get_flags(handle, pointer):
        pointer._obj.value = flags
        return status

    monkeypatch.setattr(devices, "driver", lambda: SimpleNamespace(cuStreamGetFlags=get_flags))
    assert devices.is_blocking(7) is blocking


def test_rocm_builds_are_supported(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "6.4.1")
    monkeypatch.setattr(devices, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices.describe() == "2 GPUs (ROCm 6.4.1)"
    monkeypatch.setattr(devices, "is_available", lambda: False)
    with pytest.raises(BackendError, match="finds no ROCm device") as error:
        devices.describe()
    assert "rocm-smi" in error.value.hint
