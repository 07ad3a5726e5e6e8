"""Results of CUDA graphs that a program collects."""

from collections import deque

import pytest
import torch

from syncheck.instrument.kept_results import KeptResults

GRAPH, RESULT, OTHER = 1, 7, 8
SITE = 30


class Monitor:
    def __init__(self):
        self.kept = []

    def results(self, graph):
        return frozenset({RESULT, OTHER} if graph == GRAPH else ())

    def result_kept(self, graph, allocation, site):
        self.kept.append((graph, allocation, site))


class Program:
    """A program with a result of a graph, which it replays."""

    def __init__(self):
        self.result = torch.zeros(8)
        self.monitor = Monitor()
        address = self.result.data_ptr()
        self.results = KeptResults(lambda tensor: RESULT if tensor.untyped_storage().data_ptr() == address else 0)

    def replay(self, graph=GRAPH, site=SITE):
        self.results.replayed(graph, self.monitor, site)


@pytest.fixture
def program():
    return Program()


@pytest.mark.parametrize(
    "add",
    [
        lambda kept, result: kept.append(result),
        lambda kept, result: kept.append(result[:4]),
        lambda kept, result: kept.append((len(kept), result)),
        lambda kept, result: kept.append({"logits at": result[2:]}),
    ],
    ids=["result", "view", "tuple", "dictionary"],
)
@pytest.mark.parametrize("kind", [list, deque])
def test_results_in_a_list_are_reported_at_the_third_replay(program, add, kind):
    kept = kind()
    for number in range(6):
        program.replay()
        assert bool(program.monitor.kept) is (number >= 2)
        add(kept, program.result)
    assert program.monitor.kept == [(GRAPH, RESULT, SITE)]


def test_results_under_the_keys_of_a_dictionary_are_reported(program):
    kept = {}
    for number in range(4):
        program.replay()
        kept[number] = program.result.view(2, 4)
    assert program.monitor.kept == [(GRAPH, RESULT, SITE)]


def test_each_place_that_replays_is_reported_once(program):
    for site in (SITE, SITE + 1):
        kept = []
        for _ in range(5):
            program.replay(site=site)
            kept.append(program.result)
    assert program.monitor.kept == [(GRAPH, RESULT, SITE), (GRAPH, RESULT, SITE + 1)]


@pytest.mark.parametrize(
    "take",
    [
        lambda kept, result: kept.append(result.clone()),
        lambda kept, result: kept.append(float(result.sum())),
        lambda kept, result: (kept.append(result), kept.pop()),
        lambda kept, result: kept.__setitem__(slice(None), [result]),
    ],
    ids=["copy", "number", "taken out", "replaced"],
)
def test_copies_and_results_that_are_replaced_are_not_reported(program, take):
    kept = []
    for _ in range(8):
        program.replay()
        take(kept, program.result)
    assert not program.monitor.kept


def test_views_that_are_created_once_are_not_reported(program):
    program.replay()
    parts = list(program.result.split(2))
    for _ in range(5):
        program.replay()
    assert len(parts) == 4
    assert not program.monitor.kept


def test_variables_and_attributes_are_not_reported(program):
    class Loop:
        pass

    loop = Loop()
    loop.__dict__ = {}
    for number in range(6):
        program.replay()
        setattr(loop, f"value{number}", program.result[number:])
    assert not program.monitor.kept


def test_results_collected_before_are_not_reported_again(program):
    kept = []
    for _ in range(4):
        program.replay()
        kept.append(program.result)
    latest = before = None
    for _ in range(4):
        program.replay(site=SITE + 1)
        before, latest = latest, program.result[:1]
    assert before is not None
    assert program.monitor.kept == [(GRAPH, RESULT, SITE)]


def test_only_results_of_the_replayed_graph_are_watched(program):
    kept = []
    for _ in range(5):
        program.replay(graph=GRAPH + 1)
        kept.append(program.result)
    assert not program.monitor.kept


def test_a_freed_result_is_ignored(program):
    program.replay()
    program.result = None
    for _ in range(4):
        program.replay()
    assert not program.monitor.kept


def test_the_search_for_containers_ends(program, monkeypatch):
    searches = []
    original = KeptResults._held
    monkeypatch.setattr(KeptResults, "_held", lambda self, found: searches.append(found) or original(self, found))
    holders = []
    for number in range(20):
        program.replay()
        holders.append(type("Holder", (), {"value": program.result[number % 8 :]})())
        holders[-1].__dict__ = {"value": program.result[:]}
    assert 0 < len(searches) < 10
    assert not program.monitor.kept
