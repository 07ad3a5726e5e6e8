"""CUDA graphs: captures, replays, and freed memory."""

import pytest

from syncheck.hb.footprint import dense
from syncheck.sanitizer.graphs import Graphs
from tests.unit.sanitizer.program import Text, found, new_collector, new_engine


class Captured:
    def __init__(self):
        self.collector = new_collector()
        self.engine = new_engine(4, self.collector)
        self.views = [self.engine.add_view(dense(0, n_bytes)) for n_bytes in (16, 8)]
        self.graphs = Graphs(self.collector)

    def begin(self, graph=1, stream=2, site=10):
        self.graphs.begin(graph, stream, site, self.engine)

    def launch(self, accesses=(), operator="aten::add", stream=2):
        return self.graphs.launch(stream, operator, accesses, 1)

    def found(self):
        return [(code, line) for code, line, _ in found(self.collector)]


@pytest.fixture
def captured():
    return Captured()


def test_a_capture_takes_only_the_work_of_its_streams(captured):
    assert not captured.graphs.is_capturing(2)
    assert not captured.graphs.has_graphs
    captured.begin()
    assert captured.graphs.has_graphs
    assert captured.graphs.is_capturing(2)
    assert not captured.graphs.is_capturing(3)
    captured.graphs.end()
    assert not captured.graphs.is_capturing(2)
    assert captured.graphs.has_graphs


def test_a_replay_makes_each_captured_access_once(captured):
    captured.begin()
    for accesses in ([(5, 0, False), (6, 0, True)], [(6, 0, True), (7, 1, False)]):
        captured.launch(accesses)
    captured.graphs.end()
    assert captured.graphs.replay(1, 20) == [(5, 0, False), (6, 0, True), (7, 1, False)]
    assert captured.graphs.replay(99, 20) == []


def test_branches_of_a_graph_race_with_each_other(captured):
    view = captured.views[0]
    captured.begin()
    captured.graphs.capture.streams.add(3)
    assert captured.launch([(5, view, True)]) == []
    (race,) = captured.launch([(5, view, False)], stream=3)
    assert (race.prior.actor, race.current.actor) == (2, 3)


def test_forked_streams_that_were_not_joined_are_reported(captured):
    captured.begin()
    capture = captured.graphs.capture
    for side in (3, 4):
        capture.engine.wait_stream(side, 2)
        capture.streams.add(side)
        captured.launch(stream=side)
    capture.engine.wait_stream(2, 3)
    assert captured.graphs.end() == (4,)
    assert captured.graphs.end() == ()


def test_a_forked_stream_without_work_need_not_be_joined(captured):
    captured.begin()
    captured.graphs.capture.streams.add(3)
    assert captured.graphs.end() == ()


# -- warm-up


def test_a_library_initialized_during_capture_needs_a_warm_up(captured):
    captured.begin()
    captured.launch(operator="aten::mm")
    captured.launch(operator="aten::add")
    assert captured.found() == [("SYN901", 10)]
    assert "mm" in captured.collector.findings(Text())[0].message


def test_an_operator_that_ran_before_is_warm(captured):
    captured.graphs.note_run("aten::mm")
    captured.begin()
    captured.launch(operator="aten::mm")
    assert captured.found() == []


def test_a_cold_operator_is_reported_once(captured):
    for graph in (1, 2):
        captured.begin(graph, site=10 * graph)
        captured.launch(operator="aten::mm")
        captured.graphs.end()
    assert captured.found() == [("SYN901", 10)]


# -- memory


def test_memory_freed_after_the_capture_is_gone_at_the_replay(captured):
    captured.begin()
    captured.launch([(5, 0, False), (6, 0, True)])
    captured.graphs.end()
    captured.graphs.freed(5, 15, 5)
    assert captured.graphs.replay(1, 20) == [(6, 0, True)]
    assert captured.found() == [("SYN904", 20)]
    (finding,) = captured.collector.findings(Text(bound={5: "batch"}))
    assert [location.frame.line for location in finding.related] == [15, 10]
    assert "`batch`" in finding.message
    assert "keep `batch` alive" in finding.help
    assert "in place (`batch.copy_(...)`)" in finding.help


def test_memory_of_the_graphs_own_pool_survives(captured):
    captured.begin()
    captured.graphs.allocated(5, 2, 4096)
    captured.launch([(5, 0, True)])
    captured.graphs.end()
    captured.graphs.freed(5, 15, 5)
    assert captured.graphs.replay(1, 20) == [(5, 0, True)]
    assert captured.found() == []


def test_an_intermediate_result_of_the_capture_is_ignored(captured):
    captured.begin()
    captured.graphs.allocated(5, 2, 4096)
    captured.launch([(5, 0, True), (6, 0, False)])
    captured.graphs.freed(5, 11, 5)
    captured.graphs.end()
    assert captured.graphs.replay(1, 20) == [(6, 0, False)]


def test_memory_in_a_pool_used_by_another_graph_survives(captured):
    captured.begin(1)
    captured.graphs.allocated(5, 2, 4096)
    captured.launch([(5, 0, True)])
    captured.graphs.end()
    captured.begin(2)
    captured.launch([(5, 0, False)])
    captured.graphs.end()
    captured.graphs.freed(5, 15, 5)
    assert captured.graphs.replay(2, 20) == [(5, 0, False)]
    assert captured.found() == []


def test_memory_allocated_outside_of_a_capture_is_not_in_the_pool(captured):
    captured.graphs.allocated(5, 2, 4096)
    captured.begin()
    captured.launch([(5, 0, True)])
    captured.graphs.end()
    captured.graphs.freed(5, 15, 5)
    captured.graphs.replay(1, 20)
    assert captured.found() == [("SYN904", 20)]


@pytest.mark.parametrize("is_capturing", [True, False])
def test_a_synchronization_during_capture_is_reported_with_the_capture(captured, is_capturing):
    if is_capturing:
        captured.begin()
    captured.graphs.sync_in_capture("aten::_local_scalar_dense", 12)
    (finding,) = captured.collector.findings(Text())
    assert (finding.rule.code, finding.location.frame.line) == ("SYN902", 12)
    assert "`.item()`" in finding.message
    assert [location.frame.line for location in finding.related] == ([10] if is_capturing else [])


def test_the_results_of_a_graph_are_what_its_capture_allocated_and_the_program_still_has(captured):
    captured.begin()
    for allocation in (5, 6):
        captured.graphs.allocated(allocation, 2, 16)
    captured.graphs.freed(6, 11, 10)
    captured.graphs.end()
    assert captured.graphs.results(1) == {5}
    captured.graphs.freed(5, 12, 10)
    assert captured.graphs.results(1) == captured.graphs.results(99) == frozenset()


def test_collected_results_are_reported_at_each_place_that_replays(captured):
    captured.begin()
    captured.graphs.end()
    for site in (20, 20, 21):
        captured.graphs.result_kept(1, 5, site)
    captured.graphs.result_kept(99, 5, 22)
    assert captured.found() == [("SYN906", 20), ("SYN906", 21)]
