"""Operations of a batch of messages that run beside the others, on real GPUs."""

import pytest
import torch

from syncheck.cuda.messages import Messages
from syncheck.semantics.collectives import BATCH


@pytest.fixture
def messages(gpu):
    cuda = gpu.cuda
    return Messages(cuda.reporter, cuda.streams, cuda.memory, cuda.launches)


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
