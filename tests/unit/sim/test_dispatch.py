"""Every operator runs on the CPU and is reported on the virtual stream of its tensors' device."""

from contextlib import ExitStack

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def test_an_operator_reads_its_arguments_and_writes_its_result(gpus):
    x = torch.ones(4, device="cuda:1")
    assert gpus.calls_of(lambda: x + x) == ["allocate 2 on cuda:1", "launch cuda:1 add r1 w2", "free 2"]
    assert (x + x).tolist() == [2] * 4


def test_an_operator_runs_on_the_current_stream(gpu):
    x = torch.ones(4, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        assert gpu.calls_of(lambda: x.add_(1)) == ["launch s1 add_ w1"]


def test_a_resized_result_is_written_in_its_new_memory(gpu):
    x, out = torch.ones(4, device="cuda"), torch.empty(0, device="cuda")
    assert gpu.calls_of(lambda: torch.add(x, 1, out=out)) == [
        "free 2",
        "allocate 3 on cuda:0",
        "launch cuda:0 add r1 w3",
    ]
    assert out.tolist() == [2] * 4
    assert gpu.calls_of(lambda: torch.add(x, 1, out=out)) == ["launch cuda:0 add r1 w3"]


def test_views_and_sizes_launch_nothing(gpu):
    x = torch.ones(4, 4, device="cuda")
    assert gpu.calls_of(lambda: (x.t()[1:].detach().shape, x.view(16))) == []


@pytest.mark.parametrize(
    ("call", "order"),
    [
        (lambda x: x.item(), ["launch", "sync"]),
        (lambda x: x.nonzero(), ["launch", "sync", "allocate", "launch", "free"]),
        (lambda x: x.masked_fill_(torch.ones_like(x, dtype=torch.bool), x[0]), ["launch", "sync", "launch", "free"]),
        (lambda x: x.repeat_interleave(2, output_size=2), ["allocate", "launch", "free"]),
    ],
    ids=["a value", "a size", "a number", "a size that is given"],
)
def test_the_host_waits_before_or_after_the_kernel(gpu, call, order):
    x = torch.ones(1, device="cuda")
    made = [text.split()[0] for text in gpu.calls_of(lambda: call(x))]
    assert made[-len(order) :] == order


def test_only_tagged_host_memory_is_reported(gpu):
    assert gpu.calls_of(lambda: torch.ones(4) + 1) == []
    h = torch.ones(4).pin_memory()
    assert gpu.calls_of(lambda: h + 1) == ["host add r1"]
    assert gpu.calls_of(lambda: h.add_(1)) == ["host add_ w1"]


def test_a_synchronizing_operator_is_rejected_during_capture(gpu):
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="capturing"):
            x.nonzero()
        with pytest.raises(RuntimeError, match="previous error"):
            graph.capture_end()


@pytest.mark.filterwarnings("ignore:Sparse")
def test_parts_of_sparse_results_are_on_the_device(gpu):
    sparse = torch.eye(3, device="cuda").to_sparse()
    assert sparse.values().is_cuda
    assert sparse.indices().is_cuda


def test_lengths_of_packed_sequences_stay_on_the_host(gpu):
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 1, device="cuda"), [3, 2], batch_first=True)
    assert packed.data.is_cuda
    assert packed.batch_sizes.device.type == "cpu"


def test_a_growing_tensor_gets_new_memory(gpu):
    x = torch.ones(4, device="cuda")
    assert gpu.calls_of(lambda: x.resize_(100))[:2] == ["free 1", "allocate 2 on cuda:0"]


def test_fake_tensors_made_by_torch_need_no_memory_under_a_schedule(scheduled):
    scheduled()
    with ExitStack() as entered:
        entered.enter_context(FakeTensorMode())  # entered by library code, as DTensor does
        assert torch.empty(3, device="cuda").shape == (3,)
