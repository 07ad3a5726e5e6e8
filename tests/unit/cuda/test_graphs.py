"""CUDA graphs: a capture records the memory that its operators access, a replay accesses all of it at once."""

import gc
from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.graphs import Graphs
from syncheck.cuda.streams import NOT_SOLE
from syncheck.instrument.kept_results import KeptResults


@pytest.fixture
def graphs(gpu, monkeypatch):
    monkeypatch.setattr(devices, "current_device", lambda: 0)
    cuda = gpu.cuda
    kept_results = KeptResults(cuda.memory.allocation_of)
    made = Graphs(cuda.reporter, cuda.streams, cuda.memory.owners, cuda.captures, kept_results)
    yield SimpleNamespace(
        begin=made._capture_begin(lambda graph: None), end=made._capture_end(lambda graph: None),
        replay=made._replay(lambda graph: None), gpu=gpu, graphs=made,
    )  # fmt: skip
    cuda.captures.forget()  # as at the end of a check: enables garbage collection again


def new_graph(pool=(0, 1)):
    return SimpleNamespace(pool=lambda: pool)


def test_captures_with_one_pool_have_the_same_pool_number(graphs):
    def begin(graph, pool=None, capture_error_mode="global"):
        assert capture_error_mode == "relaxed"

    begin = Graphs._capture_begin(graphs.graphs, begin)
    own = SimpleNamespace()  # torch raises if a pool is queried before the end of the capture
    begin(own, capture_error_mode="relaxed")
    own.pool = lambda: (0, 1)
    graphs.end(own)
    for graph, pool in ((new_graph((0, 1)), (0, 1)), (new_graph((4, 0)), (4, 0)), (new_graph((0, 3)), None)):
        begin(graph, *([pool] if pool else []), capture_error_mode="relaxed")
        graphs.end(graph)
    begin(new_graph((4, 0)), pool=(4, 0), capture_error_mode="relaxed")
    numbers = [call[4] for call in graphs.gpu.monitor.named("capture_begin")]
    assert numbers[0] == numbers[1]
    assert numbers[2] == numbers[4]
    assert len(set(numbers)) == 3


def test_a_capture_and_its_replay_are_reported(graphs):
    gpu, graph, x = graphs.gpu, new_graph(), torch.ones(4)
    gpu.current.handle = 7
    graphs.begin(graph)
    assert gpu.cuda.captures
    x.add_(1)
    graphs.end(graph)
    assert not gpu.cuda.captures
    graphs.replay(graph)
    begin, end, replay = (gpu.monitor.named(name)[0] for name in ("capture_begin", "capture_end", "replay"))
    assert begin[1] == end[1] == replay[1]
    assert begin[2] == replay[2] == gpu.cuda.streams.of(0, 7)


def test_replaying_a_graph_from_before_the_check_is_reported_as_incomplete(graphs):
    graph = new_graph()
    graphs.replay(graph)
    graphs.end(graph)
    gpu = graphs.gpu
    assert gpu.report().incomplete == ("a CUDA graph captured before the check began was replayed",)
    assert gpu.monitor.named("capture_end") == []
    gpu.monitor.session._incomplete.clear()


def test_suppressed_captures_are_not_reported(graphs, collection):
    with graphs.gpu.cuda.reporter.suppressed():
        graphs.begin(new_graph())
    assert graphs.gpu.monitor.named("capture_begin") == []


def test_garbage_collection_is_disabled_during_captures(graphs, collection):
    seen = []
    begin = Graphs._capture_begin(graphs.graphs, lambda graph: seen.append(gc.isenabled()))
    end = Graphs._capture_end(graphs.graphs, lambda graph: seen.append(gc.isenabled()))
    first, second = new_graph(), new_graph()
    begin(first)
    begin(second)
    end(first)
    assert not gc.isenabled()
    end(second)
    assert gc.isenabled()
    assert seen == [False] * 4


def test_a_capture_that_fails_to_begin_or_end_reenables_garbage_collection(graphs, collection):
    def fails(graph):
        raise RuntimeError("no capture")

    with pytest.raises(RuntimeError, match="no capture"):
        Graphs._capture_begin(graphs.graphs, fails)(new_graph())
    assert gc.isenabled()
    graph = new_graph()
    graphs.begin(graph)
    with pytest.raises(RuntimeError, match="no capture"):
        Graphs._capture_end(graphs.graphs, fails)(graph)
    assert gc.isenabled()


def test_garbage_collection_disabled_by_the_program_stays_disabled(graphs, collection):
    gc.disable()
    graph = new_graph()
    graphs.begin(graph)
    graphs.end(graph)
    assert not gc.isenabled()


def test_a_replay_may_use_any_memory(graphs):
    graph, owners, lost = new_graph(), graphs.gpu.cuda.memory.owners, []
    graphs.begin(graph)
    graphs.end(graph)
    owners.on_change = lambda allocation, stream: lost.append((allocation, stream))
    owners.add(SimpleNamespace(is_ordered_after_all=lambda stream, allocation: True), 1, [(9, 0, True)], {})
    graphs.replay(graph)
    assert lost == [(9, 1), (9, NOT_SOLE)]
