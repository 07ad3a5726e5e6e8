"""Delays that a run inserts around its operators."""

import pytest
import torch

from syncheck.cuda import communicators
from syncheck.cuda.delayed_calls import Call
from syncheck.cuda.delays import Delays
from syncheck.instrument.patching import Patches
from syncheck.witness.delay import Delay
from syncheck.witness.schedule import LaunchId, Pair
from tests.unit.cuda.delayed import delayed_gpu

SIDE = 7


@pytest.fixture
def delayed(on_cpu, monkeypatch, tmp_path):
    """Return a function that watches a stand-in with one launch delayed by 500 ms."""

    def watch(launch, *pairs, **more):
        delay = Delay(0, launch, 500 if launch else 0, **more)
        return delayed_gpu(on_cpu, monkeypatch, tmp_path, delay, *pairs)

    return watch


def test_only_the_operator_of_the_named_launch_is_delayed(delayed):
    with delayed(LaunchId(1, 2)) as gpu:
        x = torch.ones(3)
        x.view(3, 1).t()  # launches nothing
        assert gpu.work.sleeps == []
        x.add_(1)
        assert gpu.work.sleeps == [(0, 0.5)]
        x.mul_(2)
        assert x.tolist() == [4, 4, 4]
        assert len(gpu.work.sleeps) == 1
        assert isinstance(gpu.cuda.delays, Delays)
        assert gpu.recorded().delayed == 1


def test_nothing_is_delayed_without_a_launch(delayed):
    with delayed(None) as gpu:
        torch.ones(3).add_(1)
        assert gpu.work.sleeps == []
        assert gpu.recorded().has_ended


def test_repeated_delays_apply_to_each_later_call_from_the_same_line(delayed):
    with delayed(LaunchId(1, 2), is_repeated=True) as gpu:
        x = torch.ones(3)
        for _ in range(3):
            x.add_(1)
            x.mul_(2)
        x.add_(1)
        assert len(gpu.work.sleeps) == 3


def test_racing_accesses_are_recorded_with_the_values_read_and_left(delayed):
    pair = Pair(LaunchId(2, 1), LaunchId(1, 2))
    with delayed(LaunchId(2, 1), pair) as gpu:
        x = torch.ones(2)
        gpu.current.handle = SIDE
        x.add_(1)
        gpu.current.handle = 0
        x.mul_(3)
        seen = gpu.recorded()
    assert seen.order == ["1.2", "2.1"]  # the later one completed first
    assert [values.shown for values in seen.read["2.1"] + seen.read["1.2"]] == [("1", "1"), ("2", "2")]
    assert [values.shown for values in seen.left["1.2"]] == [("6", "6")]
    assert seen.starts == {"2.1": "2.1", "1.2": "1.2"}
    assert seen.issuers == {}
    assert seen.submitted["2.1"] <= seen.submitted["1.2"]
    assert all(place.startswith(__file__) or "test_delays.py:" in place for place in seen.places.values())


def test_without_a_delay_accesses_are_recorded_in_program_order(delayed):
    with delayed(None, Pair(LaunchId(2, 1), LaunchId(1, 2))) as gpu:
        x = torch.ones(2)
        gpu.current.handle = SIDE
        x.add_(1)
        gpu.current.handle = 0
        x.mul_(3)
        assert gpu.recorded().order == ["2.1", "1.2"]


def test_a_race_with_the_host_does_not_block_the_host(delayed):
    with delayed(LaunchId(1, 2), Pair(LaunchId(1, 2), LaunchId(0, 0))) as gpu:
        torch.ones(2).add_(1)
        assert gpu.work.n_settled == 0


@pytest.mark.parametrize(("dtype", "byte"), [(torch.float32, 0xFF), (torch.long, 0)])
def test_memory_freed_while_in_use_is_overwritten(delayed, dtype, byte):
    with delayed(LaunchId(2, 1)) as gpu:
        x = torch.ones(8, dtype=dtype)
        gpu.current.handle = SIDE
        y = x + 1
        gpu.current.handle = 0
        assert gpu.work.overwritten == []
        del x
        y.neg()
        assert gpu.work.overwritten == [(8 * dtype.itemsize, 0, byte)]


def test_memory_freed_after_the_delayed_operator_completes_is_not_overwritten(delayed):
    with delayed(LaunchId(2, 1)) as gpu:
        x = torch.ones(8)
        gpu.current.handle = SIDE
        y = x + 1
        gpu.work.events.now += 10_000
        gpu.current.handle = 0
        del x
        y.neg()
        assert gpu.work.overwritten == []


def test_values_transferred_to_the_host_are_recorded(delayed):
    with delayed(None) as gpu:
        torch.full((2,), 3.0).sum().item()
        assert [values.shown for values in gpu.recorded().host] == [("6",)]


def test_nothing_is_delayed_during_graph_capture(delayed):
    with delayed(LaunchId(1, 2)) as gpu:
        x = torch.ones(2)
        gpu.cuda.captures.begin()
        x.add_(1)
        gpu.cuda.captures.end()
        assert gpu.work.sleeps == []


class Graph:
    """Stand-in for a graph whose replay launches work on stream 1."""

    def __init__(self, gpu, tensor):
        self.gpu, self.tensor = gpu, tensor

    def replay(self):
        with self.gpu.cuda.reporter.locked_monitor() as monitor:
            monitor.launch(1, "graph replay", (), 0)


def test_a_replay_can_be_delayed(delayed, monkeypatch):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    with delayed(LaunchId(1, 2), Pair(LaunchId(1, 2), LaunchId(1, 3))) as gpu:
        patches = Patches()
        gpu.cuda.delays.install(patches)
        graph = Graph(gpu, torch.ones(2))
        graph.replay()
        assert gpu.work.sleeps == [(0, 0.5)]
        graph.replay()
        patches.undo()
        seen = gpu.recorded()
    assert (seen.delayed, sorted(seen.starts)) == (1, ["1.2", "1.3"])


def test_a_collective_before_the_delayed_operator_is_not_delayed(delayed, monkeypatch):
    monkeypatch.setattr("syncheck.cuda.delayed_mode.NAMESPACES", {"aten"})  # treat every operator as a collective
    with delayed(LaunchId(1, 2)) as gpu:
        torch.ones(2).add_(1)
        assert gpu.work.sleeps == []


def test_an_internal_error_is_recorded_and_not_raised_in_the_program(delayed, monkeypatch):
    with delayed(LaunchId(1, 2)) as gpu:
        monkeypatch.setattr(gpu.work, "sleep", lambda *_: {}["no rate"])
        assert torch.ones(2).add_(1).tolist() == [2, 2]
        assert gpu.recorded().failed == "KeyError: 'no rate'"
        assert gpu.cuda.is_checking


def test_launches_from_another_thread_are_not_attributed_to_the_current_call(delayed):
    pair = Pair(LaunchId(2, 1), LaunchId(1, 2))
    with delayed(None, pair) as gpu:
        x = torch.ones(2)
        delays = gpu.cuda.delays
        mine = delays.begin(Call("aten::add_", True, 0, [(x, True)], is_collective=False))
        with delays.around(mine), gpu.cuda.reporter.locked_monitor() as monitor:
            gpu.cuda.streams.of(0, SIDE)
            monitor.launch(2, "aten::mul_", (), 0)  # by another thread
        delays.end(mine, None)
        seen = gpu.recorded()
    assert seen.starts == {}


def test_a_functional_collective_is_delayed_on_the_programs_stream(delayed):
    with delayed(LaunchId(2, 1), issuer=LaunchId(1, 2)) as gpu:
        x = torch.ones(2)
        running = gpu.cuda.delays.begin(Call("_c10d_functional::all_reduce", True, 0, [(x, False)], is_collective=True))
        assert (running.is_delayed, running.forked) == (True, 0)
        gpu.cuda.delays.end(running, None)


def test_launch_tracking_resumes_after_an_operator_error(delayed):
    with delayed(None, Pair(LaunchId(1, 3), LaunchId(1, 4))) as gpu:
        a, b = torch.ones(2, 3), torch.ones(2, 3)
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            a @ b
        with gpu.cuda.reporter.locked_monitor() as monitor:
            monitor.launch(1, "not an operator", (), 0)
        a.add_(1)
        assert list(gpu.recorded().starts) == ["1.4"]


def test_the_communicator_is_created_before_the_delay(delayed, monkeypatch):
    order = []
    monkeypatch.setattr(communicators, "connect", lambda name, group, device: order.append((name, group, device)))
    with delayed(LaunchId(2, 1), issuer=LaunchId(1, 2)) as gpu:
        monkeypatch.setattr(gpu.work, "sleep", lambda *_: order.append("sleep"))
        x = torch.ones(2)
        running = gpu.cuda.delays.begin(Call("c10d::allreduce_", True, 0, [(x, True)], True, "the group"))
        assert order == [("c10d::allreduce_", "the group", 0), "sleep"]
        gpu.cuda.delays.end(running, None)
