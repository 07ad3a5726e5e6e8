"""Work on real GPUs that torch does not dispatch."""

from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.gpus import CudaGpus
from syncheck.hb.ids import NO_EVENT
from syncheck.instrument.message_batches import Messages
from syncheck.semantics.collectives import BATCH
from syncheck.semantics.copies import HOST_DEVICE

SIDE = 7


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    monkeypatch.setattr(devices, "current_device", lambda: 0)


@pytest.fixture
def gpus(gpu):
    cuda = gpu.cuda
    return CudaGpus(cuda.reporter, cuda.streams, cuda.memory, cuda.events, cuda.launches)


@pytest.fixture
def side(gpu):
    """Return the id of a second stream."""
    return gpu.cuda.streams.of(0, SIDE)


def test_stream_of_accepts_an_object_or_the_current_stream(gpu, gpus, side):
    assert gpus.stream_of(SimpleNamespace(device_index=0, cuda_stream=SIDE)) == side
    assert gpus.stream_of(None) == gpu.cuda.streams.of(0, 0)
    gpu.current.handle = SIDE
    assert gpus.stream_of(None) == side


def test_only_calls_of_the_program_are_reported(gpu, gpus):
    assert gpus.is_checking()
    with gpu.cuda.reporter.suppressed():
        assert not gpus.is_checking()
    gpu.cuda.is_checking = False
    assert not gpus.is_checking()


def test_a_launch_reads_and_writes_the_memory_of_its_tensors(gpu, gpus, side):
    x, out = torch.ones(4), torch.ones(4)
    gpus.launch("acme.copy", side, [(x, False), (out, True)])
    (_, stream, operator, accesses, *_) = gpu.monitor.named("launch")[-1]
    allocations = [gpu.cuda.memory.allocation_of(tensor) for tensor in (x, out)]
    assert (stream, operator) == (side, "acme.copy")
    assert [(allocation, is_write) for allocation, _, is_write in accesses] == [
        (allocations[0], False), (allocations[1], True),
    ]  # fmt: skip


def test_a_launch_that_accesses_no_memory_is_not_reported(gpu, gpus, side):
    before = len(gpu.monitor.named("launch"))
    gpus.launch("acme.copy", side, [(torch.ones(4)[:0], False)])
    assert [call[2] for call in gpu.monitor.named("launch")[before:]] == ["aten::ones"]


def test_an_event_from_before_the_check_is_unknown(gpu, gpus):
    event = SimpleNamespace(cuda_event=5)
    assert gpus.event_of(event) == NO_EVENT
    ident = gpu.cuda.events.of_handle(5)
    assert gpus.event_of(event) == ident


def test_the_device_of_a_tensor(gpus):
    assert gpus.device_of(torch.zeros(1)) == 0  # these tests take tensors on the host for those of a GPU
    assert gpus.device_of(SimpleNamespace(is_cuda=False)) == HOST_DEVICE


# -- batches of messages


@pytest.fixture
def messages(gpus):
    return Messages(gpus)


def test_an_operation_runs_on_a_stream_of_its_own_until_the_end(gpu, messages):
    messages.begin(torch.zeros(4), is_write=True)
    messages.end()
    ((_, stream, *_),) = (call for call in gpu.monitor.named("launch") if call[2] == BATCH)
    first, last = gpu.monitor.named("wait_stream")
    assert (first[1], last[2]) == (stream, stream)
    assert gpu.monitor.named("collective")[0][1:3] == (stream, BATCH)
    assert stream != gpu.cuda.streams.current(0)


def test_the_stream_is_made_once_for_a_device(gpu, messages):
    for _ in range(2):
        messages.begin(torch.zeros(4), is_write=False)
        messages.end()
    assert len({call[1] for call in gpu.monitor.named("launch") if call[2] == BATCH}) == 1


def test_nothing_is_reported_outside_a_checked_part(gpu, messages):
    gpu.cuda.is_checking = False
    messages.begin(torch.zeros(4), is_write=True)
    messages.end()
    assert [call for call in gpu.monitor.named("launch") if call[2] == BATCH] == []
