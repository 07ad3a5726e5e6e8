"""Work on virtual GPUs that torch does not dispatch."""

import pytest
import torch

from syncheck.hb.ids import NO_EVENT
from syncheck.instrument.message_batches import Messages
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.gpus import SimulatedGpus


@pytest.fixture
def calls(gpu):
    return SimulatedGpus(gpu.runtime, gpu.simulator.launches)


@pytest.fixture
def side(gpu):
    return torch.cuda.Stream()


def test_stream_of_accepts_an_object_or_the_current_stream(calls, side):
    assert calls.stream_of(None) == 1
    assert calls.stream_of(side) == 2
    with torch.cuda.stream(side):
        assert calls.stream_of(None) == 2


def test_only_a_watched_program_is_reported(gpu, calls):
    assert calls.is_checking()
    gpu.runtime.is_checking = False
    assert not calls.is_checking()
    gpu.runtime.is_checking = True


def test_a_launch_reads_and_writes_the_memory_of_its_tensors(gpu, calls, side):
    x, out = torch.ones(4, device="cuda"), torch.ones(4, device="cuda")
    assert gpu.calls_of(lambda: calls.launch("acme.copy", 2, [(x, False), (out, True)])) == [
        "launch s1 acme.copy r1 w2"
    ]


def test_host_memory_alone_is_not_a_launch(gpu, calls):
    assert gpu.calls_of(lambda: calls.launch("acme.copy", 1, [(torch.ones(4), False)])) == []


def test_a_launch_in_a_block_of_another_device_has_a_context(gpus):
    calls = SimulatedGpus(gpus.runtime, gpus.simulator.launches)
    x = torch.ones(4, device="cuda:0")
    with torch.cuda.stream(torch.cuda.Stream(device=1)):
        assert gpus.calls_of(lambda: calls.launch("acme.copy", 1, [(x, False)])) == [
            "launch cuda:0 acme.copy r1 in a context of s1"
        ]


def test_only_events_of_the_program_are_known(calls):
    event = torch.cuda.Event()
    event.record()
    assert calls.event_of(event) != NO_EVENT
    assert calls.event_of(object()) == NO_EVENT


def test_the_device_of_a_tensor(gpus):
    calls = SimulatedGpus(gpus.runtime, gpus.simulator.launches)
    assert calls.device_of(torch.ones(1, device="cuda:1")) == 1
    assert calls.device_of(torch.ones(1)) == HOST_DEVICE


# -- batches of messages


def messages(gpus):
    return Messages(SimulatedGpus(gpus.runtime, gpus.simulator.launches))


def test_an_operation_races_with_the_others_of_its_batch_only(gpus):
    beside, x = messages(gpus), torch.zeros(4, device="cuda:1")
    beside.begin(x, is_write=False)
    with torch.cuda.stream(torch.cuda.Stream(1)):
        x.add_(1)  # another operation of the batch
    assert "SYN602" in gpus.codes()


def test_the_current_stream_comes_after_it(gpus):
    beside, x = messages(gpus), torch.zeros(4, device="cuda:1")
    with torch.cuda.device(1):
        beside.begin(x, is_write=True)
        beside.end()
    x.add_(1)
    assert gpus.codes() == []


def test_the_stream_is_made_once_for_a_device(gpus):
    beside, x = messages(gpus), torch.zeros(4, device="cuda")
    beside.begin(x, is_write=True)
    beside.end()
    assert not any(call.startswith("stream(") for call in gpus.calls_of(lambda: beside.begin(x, is_write=True)))


def test_messages_on_the_host_are_left_to_gloo(gpus):
    beside, x = messages(gpus), torch.zeros(4)
    assert gpus.calls_of(lambda: (beside.begin(x, is_write=True), beside.end())) == []


def test_messages_have_no_context_since_they_run_on_a_stream_of_their_own(gpus):
    beside, x = messages(gpus), torch.zeros(4, device="cuda:0")
    with torch.cuda.stream(torch.cuda.Stream(device=1)):
        made = gpus.calls_of(lambda: beside.begin(x, is_write=True))
    assert not any("in a context of" in call for call in made)
