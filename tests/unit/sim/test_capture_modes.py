"""Which calls a capture prohibits."""

import threading

import pytest
import torch

from syncheck.sim.capture_modes import CaptureMode
from syncheck.sim.errors import NotSimulatedError


def in_another_thread(function):
    results = []

    def run():
        try:
            results.append(function())
        except RuntimeError as error:
            results.append(type(error).__name__)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize(
    ("name", "here", "elsewhere"),
    [("global", True, True), ("thread_local", True, False), ("relaxed", False, False)],
)
def test_unsafe_calls_are_prohibited_by_the_mode(name, here, elsewhere):
    mode = CaptureMode(name)
    assert mode.prohibits() is here
    assert in_another_thread(mode.prohibits) is elsewhere
    assert mode.prohibits(device=0)


def test_an_unknown_mode_is_rejected_as_by_torch():
    with pytest.raises(RuntimeError, match=r"Unknown capture error mode\. Expected `global`"):
        CaptureMode("local")


def capturing(mode, call):
    """Return the result of a call, in another thread, during a capture."""
    x = torch.zeros(4, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode=mode):
        y = x + 1
        result = in_another_thread(call)
        del y
    return result


def test_another_thread_may_query_an_event_during_a_capture_in_thread_local_mode(gpu):
    event = torch.cuda.Event()
    event.record()
    torch.cuda.synchronize()
    assert capturing("thread_local", event.query) is True


def test_a_device_without_captured_streams_may_be_synchronized(gpus):
    assert capturing("relaxed", lambda: torch.cuda.synchronize(1)) is None


def test_a_capture_during_another_one_is_not_simulated(gpus):
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="relaxed"):
        torch.zeros(4, device="cuda")
        stream = torch.cuda.Stream(1)
        with torch.cuda.stream(stream), pytest.raises(NotSimulatedError, match="a capture during another one"):
            torch.cuda.CUDAGraph().capture_begin()
