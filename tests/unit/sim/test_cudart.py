"""The CUDA runtime bindings of torch."""

import ctypes

import pytest
import torch

from syncheck.sim.cudart import CudaError, CudaRuntime


def test_errors_have_texts(gpu):
    torch.cuda.check_error(0)
    with pytest.raises(torch.cuda.CudaError, match=r"out of memory \(2\)"):
        torch.cuda.check_error(2)
    assert isinstance(torch.cuda.cudart(), CudaRuntime)
    assert torch.cuda.cudart().cudaError(0) == CudaError.success
    assert torch.cuda.cudart().cudaGetErrorString(4711) == "unrecognized error code"


def test_a_runtime_stream_is_an_external_stream(gpu):
    runtime, handle = torch.cuda.cudart(), ctypes.c_void_p()
    assert runtime.cudaStreamCreate(ctypes.addressof(handle)) == 0
    s = torch.cuda.ExternalStream(handle.value)
    assert s.cuda_stream == handle.value
    with torch.cuda.stream(s):
        torch.ones(1, device="cuda")
    assert runtime.cudaStreamDestroy(handle.value) == 0
    assert runtime.cudaStreamDestroy(handle.value) == 400
    assert gpu.codes() == []  # the stream and the default stream wait for each other implicitly


def test_registered_host_memory_is_pinned(gpu):
    runtime, h = torch.cuda.cudart(), torch.ones(20)
    size = h.numel() * h.element_size()
    assert not h.is_pinned()
    assert runtime.cudaHostRegister(h.data_ptr(), size, 0) == 0
    assert runtime.cudaHostRegister(h.data_ptr(), size, 0) == 712
    assert h.is_pinned()
    assert h[4:].is_pinned()
    assert not torch.ones(20).is_pinned()
    assert runtime.cudaHostUnregister(h.data_ptr()) == 0
    assert runtime.cudaHostUnregister(h.data_ptr()) == 713
    assert not h.is_pinned()


def test_a_copy_to_registered_memory_does_not_wait(gpu):
    h = torch.ones(20)
    torch.cuda.cudart().cudaHostRegister(h.data_ptr(), 80, 0)
    h.copy_(torch.ones(20, device="cuda"), non_blocking=True)
    h.sum()
    assert gpu.codes() == ["SYN301"]


def test_memory_info_reflects_the_gpu(gpu):
    x = torch.ones(1, device="cuda")
    free, total = torch.cuda.cudart().cudaMemGetInfo(0)
    assert total - free == 512
    del x
