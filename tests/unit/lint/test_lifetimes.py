"""Lifetimes of tensors in a statically analyzed program."""

import gc

import pytest

from syncheck.lint.lifetimes import Collector, by_reference_count, weakly


def test_the_cyclic_garbage_collector_is_off_inside():
    assert gc.isenabled()
    with by_reference_count():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_garbage_collector_is_restored_after_errors_and_nesting():
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


def test_collection_waits_for_a_certain_amount_of_source(collector):
    collector.begin()
    ended = []
    Cycle(ended)
    collector.file_ended(99)
    assert not ended
    collector.file_ended(1)
    assert ended


def test_counting_restarts_after_each_collection(collector):
    collector.begin()
    collector.file_ended(100)
    ended = []
    Cycle(ended)
    collector.file_ended(99)
    assert not ended


def test_a_process_that_did_not_begin_is_left_alone(collector):
    ended = []
    gc.disable()
    Cycle(ended)
    collector.file_ended(1000)
    assert not ended


def test_survivors_of_a_collection_are_not_examined_again(collector):
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
