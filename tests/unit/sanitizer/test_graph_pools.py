"""Graphs that share a memory pool: which replays are unordered although they use the same memory."""

import pytest

from syncheck.hb.engine import Engine
from syncheck.sanitizer.graph_pools import OWN_POOL, GraphPools
from tests.unit.sanitizer.program import Program

DEFAULT, CAPTURING, SIDE = 1, 2, 3
SMALL, LARGE = 4096, 4 << 20


class Graphs(Program):
    """A program with captures; every allocation has the given size."""

    def __init__(self):
        super().__init__(3)
        self.x = self.allocate(DEFAULT)
        self.write(DEFAULT, self.x, 1)
        self.session.sync_device(0, 2)

    def capture(self, graph, pool=1, n_bytes=SMALL, stream=CAPTURING, temporaries=1):
        """Capture a graph that makes temporaries and one result; return the result."""
        self.session.capture_begin(graph, stream, 4, pool)
        made = []
        for _ in range(temporaries + 1):
            made.append(self.new_id())
            self.session.allocate(made[-1], stream, n_bytes, 0, 5)
            self.write(stream, made[-1], 5)
        for allocation in made[:-1]:
            self.session.free(allocation, 6)
        assert self.session.capture_end(graph) == ()
        return made[-1]

    def replay(self, graph, stream, line):
        self.session.replay(graph, stream, line)


@pytest.fixture
def graphs():
    return Graphs()


@pytest.mark.parametrize(("pool", "n_races"), [(OWN_POOL, 0), (1, 1)])
def test_only_graphs_of_a_shared_pool_share_memory(pool, n_races):
    pools, engine = GraphPools(), Engine()
    for stream in (1, 2):
        engine.add_stream(stream)
    for graph, allocation in ((1, 10), (2, 20)):
        pools.begin(graph, pool)
        pools.allocated(graph, allocation, CAPTURING, SMALL)
        pools.freed(allocation)
        pools.end(graph)
    assert pools.replayed(1, 1, 0, engine) == []
    assert len(pools.replayed(2, 2, 0, engine)) == n_races


def test_unordered_replays_of_graphs_with_one_pool_are_syn905(graphs):
    graphs.capture(1)
    graphs.capture(2)
    graphs.replay(1, DEFAULT, 10)
    graphs.replay(2, SIDE, 11)
    (finding,) = graphs.report().findings
    assert (finding.rule.code, finding.location.frame.line) == ("SYN905", 11)
    assert [(location.frame.line, location.message) for location in finding.related] == [
        (10, "the other graph's replay")
    ]


def test_the_missing_wait_is_assumed_after_a_finding(graphs):
    for graph in (1, 2):
        graphs.capture(graph)
    for line in (10, 20):
        graphs.replay(1, DEFAULT, line)
    graphs.replay(2, SIDE, 30)
    graphs.replay(2, SIDE, 31)
    assert graphs.found() == [("SYN905", 30)]


def test_ordered_replays_are_not_reported(graphs):
    graphs.capture(1)
    graphs.capture(2)
    graphs.replay(1, DEFAULT, 10)
    graphs.session.wait_stream(SIDE, DEFAULT, 11)
    graphs.replay(2, SIDE, 12)
    graphs.session.sync_stream(SIDE, 13, explicit=True)
    graphs.replay(1, DEFAULT, 14)
    assert graphs.found() == []


@pytest.mark.parametrize(
    "second",
    [{"pool": 0}, {"pool": 2}, {"n_bytes": LARGE}, {"stream": SIDE}],
    ids=["no pool", "another pool", "another size class", "another capture stream"],
)
def test_graphs_that_cannot_share_memory_may_run_concurrently(graphs, second):
    graphs.capture(1)
    graphs.capture(2, **second)
    graphs.replay(1, DEFAULT, 10)
    graphs.replay(2, SIDE, 11)
    assert graphs.found() == []


def test_graphs_without_freed_memory_may_run_concurrently(graphs):
    graphs.capture(1, temporaries=0)
    graphs.capture(2)
    graphs.replay(1, DEFAULT, 10)
    graphs.replay(2, SIDE, 11)
    assert graphs.found() == []


def test_a_result_freed_before_a_capture_may_be_overwritten_by_it(graphs):
    graphs.session.free(graphs.capture(1, temporaries=0), 7)
    graphs.capture(2, temporaries=0)
    graphs.replay(2, DEFAULT, 10)
    graphs.replay(1, SIDE, 11)
    assert graphs.found() == [("SYN905", 11)]


def test_a_replay_that_overwrites_a_result_in_use_is_syn905(graphs):
    graphs.capture(1)
    result = graphs.capture(2)
    graphs.replay(2, DEFAULT, 10)
    graphs.session.wait_stream(SIDE, DEFAULT, 11)
    graphs.read(SIDE, result, 12)
    graphs.replay(1, DEFAULT, 13)
    assert graphs.found() == [("SYN905", 13)]


def test_the_first_graph_s_result_is_not_overwritten_by_later_captures(graphs):
    result = graphs.capture(1)
    graphs.capture(2)
    graphs.replay(1, DEFAULT, 10)
    graphs.session.wait_stream(SIDE, DEFAULT, 11)
    graphs.read(SIDE, result, 12)
    graphs.replay(2, DEFAULT, 13)
    assert graphs.found() == []


def test_a_freed_result_can_no_longer_be_overwritten(graphs):
    graphs.capture(1)
    result = graphs.capture(2)
    graphs.replay(2, DEFAULT, 10)
    graphs.session.wait_stream(SIDE, DEFAULT, 11)
    graphs.read(SIDE, result, 12)
    graphs.session.free(result, 13)
    graphs.replay(1, DEFAULT, 14)
    assert graphs.found() == []
