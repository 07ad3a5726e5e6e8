"""Streams without benefit: their work never overlaps, or a copy queues behind compute."""

import pytest

from syncheck.sanitizer.collector import Collector
from syncheck.sanitizer.iteration_counter import HOT
from syncheck.sanitizer.overlap_advice import OverlapAdvice
from syncheck.sanitizer.sync_history import SyncHistory
from tests.unit.sanitizer.program import Text, found, new_engine


class Program:
    def __init__(self, streams=3, devices=1):
        self.shown = []
        self.collector = Collector(lambda rule: True, self.shown.append)
        self.engine = new_engine(streams, self.collector, devices)
        self.advice = OverlapAdvice(self.engine, self.collector, SyncHistory(self.engine.host_follows))

    def launch(self, stream, site, operator="aten::mul"):
        self.advice.launching(stream, operator, site)
        self.engine.launch(stream, (), 1)

    def wait(self, stream, other):
        self.engine.wait_stream(stream, other)

    def found(self):
        self.advice.report()
        return [(code, line) for code, line, _ in found(self.collector)]


# -- SYN803


def alternate(program, iterations):
    """Let streams 1 and 2 wait for each other immediately."""
    for _ in range(iterations):
        program.launch(1, 10)
        program.wait(2, 1)
        program.launch(2, 20)
        program.launch(2, 21)
        program.wait(1, 2)


def test_a_stream_that_never_overlaps_is_reported_at_its_first_work():
    program = Program()
    alternate(program, HOT)
    for _ in range(2):
        assert program.found() == [("SYN803", 20)]
    assert len(program.shown) == 1


def test_fewer_than_twenty_visits_are_not_reported():
    program = Program()
    alternate(program, HOT - 1)
    assert program.found() == []


@pytest.mark.parametrize("change", [{"handle": 0}, {"site": 0}])
def test_default_streams_and_streams_of_torch_are_not_reported(change):
    program = Program()
    streams = program.collector.names.streams
    streams[2] = streams[2]._replace(**change)
    alternate(program, HOT)
    assert program.found() == []


def test_a_stream_that_overlapped_once_is_not_reported():
    program = Program()
    alternate(program, HOT)
    program.launch(1, 10)
    program.launch(2, 20)
    assert program.found() == []
    assert program.shown == []


def test_a_finding_is_withdrawn_if_the_stream_overlaps_after_a_report():
    program = Program()
    alternate(program, HOT)
    assert program.found() == [("SYN803", 20)]
    program.launch(1, 10)
    program.launch(2, 20)
    assert program.found() == []


def test_both_concurrent_streams_overlap():
    program = Program()
    for _ in range(HOT):
        program.launch(2, 20)
        program.launch(3, 30)
    assert program.found() == []


def test_overlap_through_a_third_stream_is_detected():
    program = Program(streams=4)
    for _ in range(HOT):
        program.launch(2, 20)
        program.wait(3, 2)
        program.launch(3, 30)  # ordered behind stream 2
        program.launch(4, 40)  # concurrent with both
        for stream in (3, 4):
            program.wait(2, stream)
    assert program.found() == []


def test_overlap_among_later_streams_does_not_count():
    program = Program(streams=4)
    for _ in range(HOT):
        program.launch(2, 20)
        for stream in (3, 4):
            program.wait(stream, 2)
            program.launch(stream, 10 * stream)
        for stream in (3, 4):
            program.wait(2, stream)
    assert program.found() == [("SYN803", 20)]


# -- SYN804


def peer_copies(program, times, *, sender=1, receiver=2, site=20):
    for _ in range(times):
        program.advice.torch_waits(sender, receiver, site)
        program.launch(sender, site, "aten::copy_")


def test_a_peer_copy_queued_behind_compute_is_reported():
    program = Program(2, devices=2)
    program.launch(1, 9)
    peer_copies(program, HOT - 1)
    assert program.found() == []
    peer_copies(program, 1)
    assert program.found() == [("SYN804", 20)]
    message = program.collector.findings(Text())[0].message
    assert "cuda:0" in message
    assert "cuda:1" in message


def test_compute_on_the_receiver_also_delays_the_copy():
    program = Program(2, devices=2)
    program.launch(2, 9)
    peer_copies(program, HOT)
    assert program.found() == [("SYN804", 20)]


def test_copies_alone_delay_nothing():
    program = Program(2, devices=2)
    program.launch(1, 9, "aten::_to_copy")
    peer_copies(program, HOT)
    assert program.found() == []


def test_a_copy_within_one_device_is_not_a_peer_copy():
    program = Program(2, devices=1)
    program.launch(1, 9)
    peer_copies(program, HOT)
    assert program.found() == []


def test_the_wait_must_belong_to_the_copy():
    program = Program(2, devices=2)
    program.launch(1, 9)
    for _ in range(HOT):
        program.advice.torch_waits(1, 2, 19)
        program.launch(1, 20, "aten::copy_")
    assert program.found() == []


def test_one_wait_belongs_to_one_copy():
    program = Program(2, devices=2)
    program.launch(1, 9)
    program.advice.torch_waits(1, 2, 20)
    for _ in range(HOT):
        program.launch(1, 20, "aten::copy_")
    assert program.found() == []


def test_a_stream_with_reported_peer_copies_is_not_reported_again():
    program = Program(4, devices=2)
    program.launch(1, 9)
    for _ in range(HOT):
        program.wait(3, 1)
        program.launch(3, 20, "aten::_to_copy")
        program.wait(1, 3)
        program.launch(1, 10)
    assert program.found() == [("SYN803", 20)]
    program.wait(3, 1)
    program.launch(3, 11)
    peer_copies(program, HOT, sender=3, receiver=2)
    assert program.found() == [("SYN804", 20)]


# -- SYN808


def test_a_second_live_object_of_a_stream_is_reported_with_the_first():
    program = Program()
    program.advice.stream_object(1, 2, 30)
    assert program.found() == []
    program.advice.stream_object(2, 2, 31)
    (finding,) = program.collector.findings(Text())
    assert (finding.rule.code, finding.location.frame.line) == ("SYN808", 31)
    assert [location.frame.line for location in finding.related] == [30]


def test_objects_of_different_streams_are_not_aliases():
    program = Program()
    program.advice.stream_object(1, 2, 30)
    program.advice.stream_object(2, 3, 31)
    assert program.found() == []


def test_a_stream_is_free_again_when_its_object_is_gone():
    program = Program()
    program.advice.stream_object(1, 2, 30)
    program.advice.stream_object_destroyed(1)
    program.advice.stream_object_destroyed(1)
    program.advice.stream_object(2, 2, 31)
    assert program.found() == []
