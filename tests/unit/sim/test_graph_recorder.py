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


def test_memory_that_the_program_frees_in_a_capture_is_freed_and_kept_for_replays(side):
    x = torch.ones(1024, device="cuda")
    before = torch.cuda.memory_allocated()
    graph, y = captured(lambda: (x * 2 + 1).exp().log())
    assert torch.cuda.memory_allocated() == before + 4096
    graph.replay()
    assert y[0].item() == pytest.approx(3)


def test_memory_that_the_program_frees_after_a_capture_may_be_taken_by_the_next_one(side):
    x = torch.ones(1024, device="cuda")
    first, y = captured(lambda: x * 2)
    before = torch.cuda.memory_allocated()
    del y
    second, z = captured(lambda: x * 3)
    assert torch.cuda.memory_allocated() == before
    first.replay()
    second.replay()
    assert z[0].item() == 3


def test_unordered_replays_of_graphs_that_share_a_pool_are_reported(side):
    x, other = torch.ones(1024, device="cuda"), torch.cuda.Stream()
    pool = torch.cuda.graph_pool_handle()
    graphs = [torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()]
    for graph in graphs:
        graph.capture_begin(pool=pool)
        y = x * 2 + 1
        graph.capture_end()
    torch.cuda.synchronize()
    graphs[0].replay()
    with torch.cuda.stream(other):
        graphs[1].replay()
    del y
    assert side.codes() == ["SYN905"]
