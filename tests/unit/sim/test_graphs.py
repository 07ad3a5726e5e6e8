"""`torch.cuda.CUDAGraph` on virtual devices."""

import pytest
import torch

from syncheck.sim.errors import NotSimulatedError


def test_a_graph_context_captures_and_a_replay_is_one_launch(gpu):
    x, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()
    with gpu.calling() as calls, torch.cuda.graph(graph):
        x.add_(1)
    assert [call for call in calls if call.startswith(("capture", "launch"))] == [
        "capture on s1", "launch s1 add_ w1", "capture_end",
    ]  # fmt: skip
    assert gpu.calls_of(graph.replay) == ["replay on cuda:0", "results"]


def test_a_replay_runs_on_the_device_of_the_capture(gpus):
    x, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
    with torch.cuda.device(1):
        assert gpus.calls_of(graph.replay)[0] == "replay on cuda:0"


def test_a_default_stream_cannot_be_captured(gpu):
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()


def test_replaying_or_ending_without_a_capture_raises_an_error(gpu):
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="operation not permitted"):
        graph.capture_end()


def test_a_forked_stream_must_be_joined(gpu):
    graph, s, t, x = torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.Stream(), torch.ones(3, device="cuda")
    with torch.cuda.stream(s):
        graph.capture_begin()
        t.wait_stream(s)
        with torch.cuda.stream(t):
            x.add_(1)
        with pytest.raises(RuntimeError, match="unjoined work"):
            graph.capture_end()


def test_a_reset_graph_cannot_be_replayed(gpu):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.ones(1, device="cuda")
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding"):
        graph.replay()


def test_graphs_may_share_a_pool(gpu):
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    assert first.pool() != second.pool()
    with torch.cuda.graph(first, pool=second.pool()):
        torch.ones(1, device="cuda")
    assert first.pool() == second.pool()


@pytest.mark.parametrize("method", ["raw_cuda_graph", "raw_cuda_graph_exec", "get_graph_data"])
def test_raw_graph_access_is_not_simulated(gpu, method):
    with pytest.raises(NotSimulatedError):
        getattr(torch.cuda.CUDAGraph(), method)()
    with pytest.raises(NotSimulatedError, match=r"to write to a\.dot"):
        torch.cuda.CUDAGraph().debug_dump("a.dot")


@pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="new in torch 2.13")
def test_the_accelerators_graph_is_a_context_manager(gpu):
    x = torch.ones(3, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        with torch.accelerator.Graph() as graph:
            x.add_(1)
        graph.replay()
    assert x.tolist() == [2, 2, 2]


@pytest.mark.parametrize("waits", ["event", "stream", "older capture"])
def test_a_capture_cannot_wait_for_outside_work(gpu, waits):
    main, side, done = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()
    x = torch.ones(4, device="cuda")
    done.record(side)
    with torch.cuda.stream(main):
        if waits == "older capture":
            older = torch.cuda.CUDAGraph()
            older.capture_begin()
            x.add_(1)
            done.record()
            older.capture_end()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        x.add_(1)
        with pytest.raises(RuntimeError, match="dependency created on uncaptured work in another stream"):
            main.wait_stream(side) if waits == "stream" else main.wait_event(done)
        with pytest.raises(RuntimeError, match="previous error during capture"):
            graph.capture_end()


def test_a_capture_may_wait_for_external_and_unrecorded_events(gpu):
    main, external = torch.cuda.Stream(), torch.cuda.Event(external=True)
    x = torch.ones(4, device="cuda")
    external.record()
    with torch.cuda.stream(main):
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        main.wait_event(external)
        main.wait_event(torch.cuda.Event())
        x.add_(1)
        graph.capture_end()
