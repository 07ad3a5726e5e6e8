"""The calls of one stream and one thread reach the monitor later: all of them, in order, before any other call."""

import os
from threading import Thread, get_ident

import pytest
import torch

from syncheck.instrument.hosts import Hosts
from syncheck.sim.alone import Alone
from syncheck.sim.memory import ENOUGH


@pytest.fixture
def x(gpu, monkeypatch):
    ignore_other_threads(monkeypatch)
    made = torch.ones(4, device="cuda")
    for _ in range(2):  # the first call of an operator takes another path
        made.relu().sin_()
        made.cos_()
        made.mul_(2)
        made.fill_(2)
        made.add_(0)
    gpu.simulator.flush_calls()
    gpu.calls.clear()
    return made


def ignore_other_threads(monkeypatch):
    """Ignore the queues and locks of the test runner's threads: each use makes the pending calls."""
    main = get_ident()
    for name in ("release", "acquire"):
        original = getattr(Hosts, name)

        def in_main_thread(hosts, sync, original=original):
            if get_ident() == main:
                original(hosts, sync)

        monkeypatch.setattr(Hosts, name, in_main_thread)


def test_the_state_ends_for_good():
    alone = Alone()
    alone.stream = 3
    alone.suspend()
    assert (alone.stream, alone.has_ended) == (0, False)
    alone.end()
    assert alone.has_ended


def test_calls_are_made_before_the_next_other_call(gpu, x):
    x.mul_(2)
    y = x.relu()
    del y
    assert gpu.calls == []
    torch.cuda.current_stream().synchronize()
    assert [call.split()[0] for call in gpu.calls] == ["launch", "allocate", "launch", "free", "sync"]


def test_few_calls_are_pending_at_any_time(gpu, x):
    for _ in range(2 * ENOUGH):
        x.mul_(2)
    assert len(gpu.calls) >= ENOUGH
    assert len(gpu.runtime.memory.later) < ENOUGH


def test_a_report_contains_everything(gpu, x):
    x.mul_(2)
    assert gpu.codes() == []
    assert len(gpu.calls) == 1


def other_stream(x):
    with torch.cuda.stream(torch.cuda.Stream()):
        return torch.ones(2, device="cuda")


def other_thread(x):
    thread = Thread(target=x.cos)
    thread.start()
    thread.join()


def graph(x):
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        x.cos()


def memory_pool(x):
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        x.cos()


ENDS = {
    "another stream": other_stream,
    "another thread": other_thread,
    "a graph": graph,
    "a memory pool": memory_pool,
    "record_stream": lambda x: x.record_stream(torch.cuda.Stream()),
    "callbacks for GPU calls": lambda x: torch._C._activate_gpu_trace(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_calls_are_made_at_once_as_soon_as_order_may_matter(end, gpu, x):
    x.mul_(2)
    end(x)
    x.sin_()
    assert "sin_" in gpu.calls[-1]
    positions = [next(n for n, call in enumerate(gpu.calls) if name in call) for name in ("mul_", "sin_")]
    assert positions == sorted(positions)


def test_a_launch_after_a_device_wide_wait_is_reported_at_once(gpu, x):
    for _ in range(25):
        x.mul_(2)
        torch.cuda.synchronize()
        x.add_(1)
        assert "add_" in gpu.calls[-1]
    assert gpu.codes() == ["SYN806"]


def test_an_error_in_the_checker_ends_the_check_but_not_the_program(gpu, x, monkeypatch):
    def fail(*args):
        raise KeyError("engine")

    monkeypatch.setattr(gpu.session, "launch", fail)
    x.mul_(2)
    x.add_(1)
    gpu.simulator.flush_calls()
    assert x.tolist() == [5.0] * 4
    monkeypatch.undo()
    assert gpu.session.report(gpu.sites).incomplete


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_reports_nothing(gpu, x):
    x.mul_(2)
    child = os.fork()
    if child == 0:
        try:
            x.mul_(2)
            gpu.simulator.flush_calls()
            os._exit(len(gpu.calls))
        finally:
            os._exit(70)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_backward_passes_of_one_stream_are_followed(gpu):
    weight = torch.ones(3, device="cuda", requires_grad=True)
    weight.mul(2).sum().backward()
    gpu.simulator.flush_calls()
    gpu.calls.clear()
    loss = (weight.mul(2) * weight).sum()
    loss.backward()
    assert gpu.simulator.backward.alone_run is None
    gpu.simulator.flush_calls()
    assert all(call.split()[0] in {"launch", "allocate", "free"} for call in gpu.calls)
