"""Described library functions on virtual GPUs."""

import pytest
import torch

from syncheck.sim.library import LibraryCalls


@pytest.fixture
def calls(gpu):
    return LibraryCalls(gpu.runtime, gpu.simulator.launches)


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
    calls = LibraryCalls(gpus.runtime, gpus.simulator.launches)
    x = torch.ones(4, device="cuda:0")
    with torch.cuda.stream(torch.cuda.Stream(device=1)):
        assert gpus.calls_of(lambda: calls.launch("acme.copy", 1, [(x, False)])) == [
            "launch cuda:0 acme.copy r1 in a context of s1"
        ]


def test_a_stream_waits_for_another_but_never_for_itself(gpu, calls, side):
    assert gpu.calls_of(lambda: calls.wait_stream(2, 1)) == ["wait s1 for cuda:0 (torch)"]
    assert gpu.calls_of(lambda: calls.wait_stream(2, 2)) == []


def test_a_stream_waits_for_an_event_of_the_program(gpu, calls, side):
    event = torch.cuda.Event()
    event.record()
    assert gpu.calls_of(lambda: calls.wait_event(2, event)) == ["wait s1 for e1 (torch)"]
    assert gpu.calls_of(lambda: calls.wait_event(2, object())) == []


def test_sync_stream_is_reported_as_an_implicit_host_wait(gpu, calls, side):
    assert gpu.calls_of(lambda: calls.sync_stream(2)) == ["sync s1"]
