"""Settings that only affect the speed of real GPUs."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.tuning import WITHOUT_EFFECT, install_tuning


@pytest.fixture(autouse=True)
def tuning():
    patches = Patches()
    install_tuning(patches)
    yield
    patches.undo()


@pytest.mark.parametrize(
    ("name", "args", "answer"),
    [
        ("enable", (True,), None), ("is_enabled", (), False), ("tuning_is_enabled", (), False),
        ("record_untuned_is_enabled", (), False), ("get_max_tuning_duration", (), 30),
        ("get_max_tuning_iterations", (), 100), ("get_filename", (), ""), ("get_results", (), ()),
        ("get_validators", (), ()), ("read_file", ("a.csv",), False), ("get_rotating_buffer_size", (), -1),
    ],
)  # fmt: skip
def test_no_kernel_is_tuned(name, args, answer):
    if not hasattr(torch.cuda.tunable, name):
        pytest.skip("this torch has no such function")
    assert getattr(torch.cuda.tunable, name)(*args) == answer


def test_explicit_tuning_is_rejected():
    with pytest.raises(NotSimulatedError, match=r"torch\.cuda\.tunable\.tune_gemm_in_file\(\) is not simulated"):
        torch.cuda.tunable.tune_gemm_in_file("a.csv")


def test_each_function_of_tunable_is_accepted_or_rejected():
    for name in torch.cuda.tunable.__all__:
        function = getattr(torch.cuda.tunable, name)
        assert "syncheck" in function.__code__.co_filename, name


def test_allocator_settings_are_accepted():
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    torch.cuda.memory._record_memory_history(max_entries=10)
    for name in ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"):
        if hasattr(C, name):
            assert getattr(C, name)("a setting") is None


@pytest.mark.parametrize("library", ["linalg", "blas"])
def test_a_preferred_library_is_remembered(library):
    setter, getter = f"_set_{library}_preferred_backend", f"_get_{library}_preferred_backend"
    if not (hasattr(C, setter) and hasattr(C, getter)):
        pytest.skip("this torch has no such setting")
    before = getattr(C, getter)()
    other = next(kind for kind in type(before).__members__.values() if kind != before)
    getattr(C, setter)(other)
    assert getattr(C, getter)() == other


def test_each_device_has_a_plan_cache_with_a_size():
    cache = torch.backends.cuda.cufft_plan_cache
    assert (cache.size, cache.max_size, cache[0].size) == (0, 4096, 0)
    cache[1].max_size = 10
    assert cache.max_size == 10
    cache.clear()


def test_settings_are_restored():
    patches = Patches()
    before = torch.cuda.tunable.is_enabled
    install_tuning(patches)
    assert torch.cuda.tunable.is_enabled is not before
    patches.undo()
    assert torch.cuda.tunable.is_enabled is before


def test_functions_without_an_effect_do_not_exist_in_a_cpu_build():
    if torch.version.cuda is None:
        assert [name for name in WITHOUT_EFFECT if hasattr(C, name)] == []


def test_functions_without_an_effect_can_be_called(gpu):
    assert {name: getattr(C, name)() for name in WITHOUT_EFFECT} == WITHOUT_EFFECT


Q = torch.arange(32.0).reshape(1, 1, 4, 8) / 32


@pytest.mark.parametrize("kernel", ["EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "FLASH_ATTENTION", "MATH"])
def test_each_attention_kernel_can_be_requested(kernel):
    expected = scaled_dot_product_attention(Q, Q, Q)
    with sdpa_kernel(getattr(SDPBackend, kernel)):
        assert torch.backends.cuda.math_sdp_enabled() == (kernel == "MATH")
        torch.testing.assert_close(scaled_dot_product_attention(Q, Q, Q), expected)
    assert torch.backends.cuda.math_sdp_enabled()


def test_attention_without_any_kernel_raises_torchs_error():
    with sdpa_kernel([]), pytest.raises(RuntimeError, match="No viable backend"):
        scaled_dot_product_attention(Q, Q, Q)
    assert scaled_dot_product_attention(Q, Q, Q).shape == Q.shape


def test_attention_settings_of_the_program_survive():
    patches = Patches()
    install_tuning(patches)
    torch.backends.cuda.enable_math_sdp(False)
    patches.undo()
    try:
        assert not torch.backends.cuda.math_sdp_enabled()
    finally:
        torch.backends.cuda.enable_math_sdp(True)
