"""Parts of torch that surround CUDA."""

import pytest
import torch

from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.unsupported import EAGER


def test_compiled_functions_run_eagerly_with_a_note(gpu):
    double = torch.compile(lambda x: x * 2, fullgraph=True)
    assert double(torch.ones(1, device="cuda")).tolist() == [2]

    @torch.compile(mode="reduce-overhead")
    def triple(x):
        return x * 3

    assert triple(torch.ones(1)).tolist() == [3]
    net = torch.compile(torch.nn.Linear(1, 1))
    assert "_orig_mod.weight" in net.state_dict()
    torch.nn.Linear(1, 1).compile()
    assert set(gpu.notes) == {EAGER}


def test_functions_that_only_a_cuda_build_has_are_rejected(gpu):
    with pytest.raises(NotSimulatedError, match=r"torch._C._cuda_unknown\(\)"):
        torch._C._cuda_unknown()
    with pytest.raises(AttributeError, match="has no attribute 'unknown'"):
        torch._C.unknown  # noqa: B018  it raises


@pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")  # up to torch 2.11
def test_the_profiler_ignores_gpus(gpu):
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        torch.ones(1, device="cuda").add_(1)
    assert torch.profiler.ProfilerActivity.CUDA not in profile.activities
    torch.cuda.profiler.start()
    torch.cuda.profiler.stop()
    assert torch.cuda.cudart().cudaProfilerStart() == 0
    with pytest.raises(NotSimulatedError, match="cudaMalloc"):
        torch.cuda.cudart().cudaMalloc(4)


def test_nvtx_ranges_have_no_effect(gpu):
    torch.cuda.nvtx.range_push("a")
    torch.cuda.nvtx.range_pop()
    with torch.cuda.nvtx.range("b"):
        assert gpu.calls_of(lambda: torch.cuda.nvtx.mark("c")) == []
    with torch.autograd.profiler.emit_nvtx(record_shapes=True) as emitting:
        assert torch.ones(2, device="cuda").sum() == 2
    assert emitting.enabled


def test_one_hot_waits_only_if_the_number_of_classes_is_omitted(gpu):
    labels = torch.tensor([0, 2], device="cuda")
    given = gpu.calls_of(lambda: torch.nn.functional.one_hot(labels, 3))
    assert not any(call.startswith("sync") for call in given)
    assert any(call.startswith("sync") for call in gpu.calls_of(lambda: torch.nn.functional.one_hot(labels)))
    assert torch.nn.functional.one_hot(labels, 3).tolist() == [[1, 0, 0], [0, 0, 1]]
    each = torch.vmap(lambda label: torch.nn.functional.one_hot(label, 3))(labels)
    assert each.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_lengths_on_the_cpu_are_numbers(gpu):
    log_probs = torch.randn(5, 1, 4, device="cuda").log_softmax(2)
    lengths = torch.tensor([5]), torch.tensor([2])
    loss = torch.nn.functional.ctc_loss(log_probs, torch.tensor([[1, 2]], device="cuda"), *lengths)
    assert loss.is_cuda


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_lengths_of_a_single_sequence_are_numbers(gpu, device):
    log_probs = torch.randn(5, 4, device=device).log_softmax(1)
    targets = torch.tensor([1, 2], device=device)
    one = torch.nn.functional.ctc_loss(log_probs, targets, torch.tensor(5), torch.tensor(2))
    assert torch.equal(one, torch.nn.functional.ctc_loss(log_probs, targets, (5,), (2,)))
