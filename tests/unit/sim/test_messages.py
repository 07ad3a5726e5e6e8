"""Operations of a batch of messages that run beside the others, on virtual GPUs."""

import torch

from syncheck.sim.messages import Messages


def messages(gpus):
    return Messages(gpus.runtime, gpus.simulator.launches)


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
