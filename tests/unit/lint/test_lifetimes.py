"""How long a tensor lives in a program that is only read."""

import gc

import pytest

from syncheck.lint.lifetimes import Collector, by_reference_count, weakly


def test_the_collector_of_cycles_is_off_inside():
    assert gc.isenabled()
    with by_reference_count():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_comes_back_after_an_error_and_stays_off_where_it_was():
    with pytest.raises(ZeroDivisionError), by_reference_count():
        raise ZeroDivisionError
    assert gc.isenabled()
    with by_reference_count(), by_reference_count():
        pass
    assert gc.isenabled()


class Cycle:
    def __init__(self, ended):
        self.itself = self
        self.ended = ended

    def __del__(self):
        self.ended.append(True)


@pytest.fixture
def collector():
    yield Collector(most=100)
    gc.unfreeze()
    gc.enable()


def test_a_collector_waits_for_some_source(collector):
    collector.begin()
    ended = []
    Cycle(ended)
    collector.file_ended(99)
    assert not ended
    collector.file_ended(1)
    assert ended


def test_a_collector_counts_anew_after_each_collection(collector):
    collector.begin()
    collector.file_ended(100)
    ended = []
    Cycle(ended)
    collector.file_ended(99)
    assert not ended


def test_a_process_that_does_more_than_lint_is_left_alone(collector):
    ended = []
    gc.disable()
    Cycle(ended)
    collector.file_ended(1000)
    assert not ended


def test_what_is_left_after_a_collection_is_not_looked_at_again(collector):
    collector.begin()
    ended = []
    kept = Cycle(ended)
    collector.file_ended(100)
    del kept
    collector.file_ended(100)
    assert not ended


class Log:
    def __init__(self):
        self.lines = []

    def note(self, line):
        self.lines.append(line)


def test_a_weak_method_is_called_as_long_as_its_object_lives():
    log = Log()
    note, lines = weakly(log.note), log.lines
    note("first")
    del log
    note("second")
    assert lines == ["first"]
