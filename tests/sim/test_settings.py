"""Settings of torch on simulated GPUs: mere tuning is ignored, other settings are supported or rejected."""

import pytest
import torch

import syncheck
from syncheck.sim.errors import NotSimulatedError


@pytest.fixture
def checked():
    with syncheck.check(backend="sim") as report:
        yield report


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda t: t._C._cuda_clearCublasWorkspaces(), id="cublas workspaces"),  # as Lightning does
        pytest.param(lambda t: t._C._cuda_setCublasWorkspaceSize(1 << 20), id="size of a workspace"),
        pytest.param(lambda t: t._C._cuda_emptyCache(), id="empty cache"),
        pytest.param(lambda t: t.cuda.memory._set_allocator_settings("expandable_segments:True"), id="allocator"),
        pytest.param(lambda t: t.cuda.caching_allocator_enable(True), id="caching"),
        pytest.param(lambda t: t.backends.cuda.cufft_plan_cache[0].clear(), id="plan cache"),
        pytest.param(lambda t: t.backends.cuda.preferred_linalg_library("cusolver"), id="library"),
        pytest.param(lambda t: t.cuda.tunable.enable(False), id="tunable operators"),
    ],
)
def test_tuning_calls_do_nothing(checked, call):
    call(torch)
    assert torch.ones(2, device="cuda").sum().item() == 2


def test_preferred_libraries_and_cache_sizes_are_stored(checked):
    torch.backends.cuda.preferred_linalg_library("magma")
    assert "Magma" in str(torch.backends.cuda.preferred_linalg_library())
    torch.backends.cuda.cufft_plan_cache.max_size = 7
    assert torch.backends.cuda.cufft_plan_cache.max_size == 7


def test_the_low_level_device_is_the_current_one(checked):
    torch._C._cuda_setDevice(1)
    assert torch.cuda.current_device() == 1
    assert torch.ones(2, device="cuda").device.index == 1


def test_a_compiled_kernel_is_rejected_when_called_but_not_when_created(checked):
    kernel = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return x + x; }")
    with pytest.raises(NotSimulatedError, match="jiterator"):
        kernel(torch.ones(2, device="cuda"))


def test_an_allocator_without_a_cache_is_rejected(checked):
    with pytest.raises(NotSimulatedError, match="caching_allocator_enable"):
        torch.cuda.caching_allocator_enable(False)


def test_the_sync_debug_mode_warns_about_synchronizing_operators(checked):
    x = torch.ones(3, device="cuda")
    torch.cuda.set_sync_debug_mode("warn")
    assert torch.cuda.get_sync_debug_mode() == 1
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
        x.nonzero()
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
        x.sum().item()
    torch.cuda.synchronize()  # without a warning, as on GPUs


def test_the_sync_debug_mode_can_make_synchronizing_operators_raise(checked):
    x = torch.ones(3, device="cuda")
    torch.cuda.set_sync_debug_mode(2)
    for call in (x.cpu, x.tolist, torch.cuda.current_stream().synchronize):
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            call()
    torch.cuda.set_sync_debug_mode("default")
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        torch.cuda.set_sync_debug_mode("loud")


def test_the_memory_fraction_limits_the_memory(checked):
    torch.cuda.set_per_process_memory_fraction(1e-6, 1)
    assert torch.cuda.get_per_process_memory_fraction(1) == 1e-6
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(100_000, device="cuda:1")
    assert torch.empty(100_000, device="cuda:0").numel() == 100_000
    with pytest.raises(ValueError, match="Invalid fraction"):
        torch.cuda.set_per_process_memory_fraction(2.0)
