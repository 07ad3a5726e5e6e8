"""A capture records operators and undoes their effects; a replay runs them again."""

import pytest
import torch

from syncheck.sim.graph_recorder import Tape


@pytest.fixture
def side(gpu):
    with torch.cuda.stream(torch.cuda.Stream()):
        yield gpu


def captured(work):
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    result = work()
    graph.capture_end()
    return graph, result


def test_a_capture_has_no_effect_until_it_is_replayed(side):
    x = torch.ones(3, device="cuda")
    graph, _ = captured(lambda: x.add_(1).mul_(3))
    assert x.tolist() == [1, 1, 1]
    graph.replay()
    assert x.tolist() == [6, 6, 6]
    graph.replay()
    assert x.tolist() == [21, 21, 21]


def test_a_replay_reads_current_inputs_and_writes_its_own_results(side):
    x = torch.ones(3, device="cuda")
    graph, y = captured(lambda: (x * 2) + 1)
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [11, 11, 11]


def test_freed_inputs_of_a_replay_hold_arbitrary_values(side):
    inputs = [torch.ones(3, device="cuda")]
    graph, y = captured(lambda: inputs[0] * 2)
    inputs.clear()
    graph.replay()
    assert y.tolist() == [0, 0, 0]
    assert "SYN904" in side.codes()


def test_freed_memory_is_shared_by_all_operators_of_a_replay(side):
    x = torch.ones(3, device="cuda")

    def work(x):
        x.fill_(2)
        y = x + 2
        del x
        return y

    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    y = work(x)
    graph.capture_end()
    del x
    graph.replay()
    assert y.tolist() == [4, 4, 4]


def test_an_empty_capture_warns(side):
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"):
        captured(lambda: None)
    captured(lambda: torch.cuda._sleep(1))


def test_a_copy_from_pinned_memory_is_repeated_in_a_replay(side):
    h = torch.ones(3).pin_memory()
    graph, x = captured(lambda: h.to("cuda", non_blocking=True))
    h.fill_(4)
    graph.replay()
    assert x.tolist() == [4, 4, 4]


def test_only_one_capture_runs_at_a_time(side):
    recorder = side.simulator.recorder
    recorder.begin(Tape(1, 2))
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        recorder.begin(Tape(2, 2))
    assert side.runtime.is_capturing
    recorder.end()
    assert not side.runtime.is_capturing


def test_views_are_not_steps(side):
    x = torch.ones(4, device="cuda")
    graph, _ = captured(lambda: x.view(2, 2)[0].add_(1))
    assert len(graph._tape.steps) == 1
    graph.replay()
    assert x.tolist() == [2, 2, 1, 1]
