"""Events on which their own recording stream waits."""

import pytest

from syncheck.lint.interp.self_waits import SelfWaits
from syncheck.lint.interp.values import Event, Stream
from tests.unit.sanitizer.program import Text, found, new_collector, new_engine

COPIES, OTHER = 2, 1


@pytest.fixture
def collector():
    made = new_collector()
    new_engine(3, made)
    return made


@pytest.fixture
def waits(collector):
    made = SelfWaits(collector)
    made.fetching.add(COPIES)
    return made


def event(stream=COPIES, function="f"):
    return Event(9, recorded=(stream, 10, function))


def note(waits, event, waiter=COPIES, *, function="f", is_followed=True):
    waits.note(event, Stream(waiter, 0), 20, function, is_followed=is_followed)


def test_a_stream_waiting_for_its_own_event_after_a_copy_to_the_host_is_reported(waits, collector):
    note(waits, event())
    assert found(collector) == [("SYN407", 20, 1)]
    (finding,) = collector.findings(Text())
    assert [location.frame.line for location in finding.related] == [10]
    assert ".synchronize()" in finding.help


def test_a_stream_without_copies_to_the_host_is_not_reported(waits, collector):
    note(waits, event(OTHER), OTHER)
    assert found(collector) == []


def test_an_unrecorded_event_is_ignored(waits, collector):
    note(waits, Event(9))
    assert found(collector) == []


@pytest.mark.parametrize("is_before", [True, False])
def test_an_event_that_another_stream_waits_for_is_useful(waits, collector, is_before):
    made = event()
    for waiter in (OTHER, COPIES) if is_before else (COPIES, OTHER):
        note(waits, made, waiter)
    assert found(collector) == []


def test_a_wait_in_another_function_is_not_reported(waits, collector):
    made = event()
    note(waits, made, function="g")
    assert made.is_useful
    assert found(collector) == []


def test_an_escaped_event_may_be_waited_for_elsewhere(waits, collector):
    made = event()
    note(waits, made)
    made.escaped = True
    assert found(collector) == []


def test_a_branch_that_is_not_followed_reports_nothing_but_counts(waits, collector):
    made = event()
    note(waits, made, is_followed=False)
    assert found(collector) == []
    assert not made.is_useful
    note(waits, made, OTHER, is_followed=False)
    assert made.is_useful


def test_a_wait_by_a_fetching_stream_does_not_make_an_event_useful(waits):
    made = event(OTHER)
    note(waits, made, COPIES)
    assert not made.is_useful
