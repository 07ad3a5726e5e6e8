"""Results of CUDA graphs that the program keeps on the path that is followed."""

import pytest

from syncheck.lint.interp.graph_results import GraphResults, taken_from
from syncheck.lint.interp.values import Block, Graph, Sequence, Tensor
from tests.unit.sanitizer.program import found, new_collector, new_engine

REPLAY, KEEP, USE = 5, 6, 9


class Program:
    """A captured graph with one result."""

    def __init__(self):
        self.collector = new_collector()
        new_engine(2, self.collector)
        self.results = GraphResults(self.collector)
        self.graph = Graph(1)
        self.block = Block(0, 0, is_pinned=False, died=lambda _: None)
        self.result = Tensor(self.block)
        self.results.begin(self.graph)
        self.results.launched([(self.result, True)], 1)
        self.results.end()

    def replay(self):
        self.results.replayed(self.graph, REPLAY)

    def take(self, site=KEEP):
        return self.results.taken(self.result, lambda: site)

    def found(self):
        return [(code, line) for code, line, _ in found(self.collector)]


@pytest.fixture
def program():
    return Program()


def test_a_result_in_a_list_that_gets_the_next_one_is_reported_once(program):
    kept = Sequence([])
    for _ in range(3):
        program.replay()
        kept.items.append(program.take())
        program.results.added(kept, kept.items[-1], lambda: KEEP)
    program.results.launched([(tensor, False) for tensor in kept.items], USE)
    assert program.found() == [("SYN906", KEEP)]


def test_a_result_that_is_used_after_the_next_one_is_reported(program):
    program.replay()
    first = program.take()
    program.replay()
    second = program.take()
    program.results.launched([(second, False)], USE)
    assert program.found() == []
    program.results.launched([(first, False)], USE)
    assert program.found() == [("SYN906", USE)]


def test_a_view_is_a_result_of_its_own(program):
    views = []
    for _ in range(2):
        program.replay()
        views.append(taken_from(program.result, Tensor(program.block), KEEP))
    program.results.launched([(taken_from(views[0], Tensor(program.block), KEEP + 1), False)], USE)
    assert program.found() == [("SYN906", USE)]


def test_a_view_that_is_created_once_shows_each_result(program):
    program.replay()
    view = taken_from(program.result, Tensor(program.block), KEEP)
    program.replay()
    program.results.launched([(view, False)], USE)
    assert program.found() == []


def test_a_result_under_its_own_name_is_that_of_the_latest_replay(program):
    for _ in range(2):
        program.replay()
        program.results.launched([(program.result, False)], USE)
    assert program.found() == []


def test_results_in_a_tuple_are_taken_too(program):
    program.replay()
    taken = program.results.taken(Sequence([program.result]), lambda: KEEP)
    assert taken.items[0] is not program.result
    assert taken.items[0].taken == (KEEP, 1)


def test_nothing_is_taken_before_the_first_replay(program):
    assert program.take() is program.result


def test_what_is_written_is_not_reported(program):
    program.replay()
    first = program.take()
    program.replay()
    program.take()
    program.results.launched([(first, True)], USE)
    assert program.found() == []


def test_one_of_several_graphs_is_not_reported(program):
    program.graph.replays.is_picked = True
    kept = []
    for _ in range(2):
        program.replay()
        kept.append(program.take())
    program.results.launched([(kept[0], False)], USE)
    assert program.found() == []


def test_a_container_with_an_unknown_limit_is_not_reported(program):
    kept = Sequence([], limit=-1)
    for _ in range(3):
        program.replay()
        kept.items.append(program.take())
        program.results.added(kept, kept.items[-1], lambda: KEEP)
    assert program.found() == []
