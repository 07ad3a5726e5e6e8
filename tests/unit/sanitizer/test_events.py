"""Events: waits without effect, lost records, elapsed time."""

import pytest

from syncheck.findings import Frame
from syncheck.hb.ids import MAIN_THREAD, UNKNOWN_SITE, NamedKind, StreamOrigin, WaitCall
from syncheck.sanitizer.events import Events
from syncheck.sanitizer.messages import StreamInfo
from syncheck.sanitizer.sync_history import SyncHistory
from tests.unit.sanitizer.program import Text, found, new_collector, new_engine

EVENT, STREAM_WAIT = WaitCall.EVENT_WAIT, WaitCall.STREAM_WAIT_EVENT
BY_NAME = StreamOrigin.BY_NAME


class Watched:
    """Streams 1 (default), 2 and 3, and events 7 and 8, created at lines 70 and 80."""

    def __init__(self, *, timing=True, devices=1):
        self.collector = new_collector()
        self.engine = new_engine(3, self.collector, devices)
        self.history = SyncHistory(lambda host, moment: True)
        self.events = Events(self.engine, self.history, self.collector)
        for event in (7, 8):
            self.events.add(event, 10 * event, timing=timing)
        self.text = Text()

    def work(self, stream):
        self.engine.launch(stream, (), 1)
        return self.engine.now(stream)

    def record(self, event, stream, site=20, current=0):
        self.events.record(event, stream, site, BY_NAME, current)

    def wait(self, event, stream, site=30, via=STREAM_WAIT):
        self.events.wait(event, stream, site, via, BY_NAME, 0)

    def found(self):
        self.events.report_redundant(self.text)
        return [(code, line) for code, line, _ in found(self.collector, self.text)]


@pytest.fixture
def watched():
    return Watched()


# -- waits


def test_a_wait_orders_the_stream_after_the_record(watched):
    epoch = watched.work(2)
    watched.record(7, 2)
    watched.wait(7, 3)
    assert watched.engine.covers(3, epoch)
    assert watched.found() == []
    (wait,) = watched.history.waits_after(epoch)
    assert (wait.waiter, wait.event, wait.by_event, wait.recorded[:2]) == (3, 7, False, (2, 20))


def test_a_wait_before_the_record_does_nothing(watched):
    watched.wait(7, 3)
    assert watched.found() == [("SYN401", 30)]
    (finding,) = watched.collector.findings(watched.text)
    assert finding.related[0].frame.line == 70
    assert watched.events.is_reported_as_unrecorded(30)


def test_a_call_that_is_effective_once_is_not_reported(watched):
    watched.wait(7, 3)
    watched.work(2)
    watched.record(7, 2)
    watched.wait(7, 3)
    assert watched.found() == []
    assert not watched.events.is_reported_as_unrecorded(30)


@pytest.mark.parametrize("wait", ["wait", "sync"])
def test_a_call_that_is_effective_for_one_caller_is_not_reported_for_others(watched, wait):
    def wait_at(event, site):
        watched.wait(event, 3, site) if wait == "wait" else watched.events.sync(event, site)

    watched.text.at_line[31] = 30  # the same line in a function that another call site reaches
    watched.work(2)
    watched.record(7, 2)
    wait_at(7, 30)
    wait_at(8, 31)
    assert watched.found() == []
    assert not watched.events.is_reported_as_unrecorded(31)


@pytest.mark.parametrize("wait", ["wait", "sync"])
def test_the_first_use_of_an_event_of_a_ring_has_nothing_to_wait_for(watched, wait):
    for event in (11, 12):
        watched.events.add(event, 110)
    watched.wait(11, 3) if wait == "wait" else watched.events.sync(11, 30)
    watched.record(11, 2)
    assert watched.found() == []
    assert not watched.events.is_reported_as_unrecorded(30)


def test_an_event_of_a_ring_that_is_never_recorded_is_reported(watched):
    for event in (11, 12):
        watched.events.add(event, 110)
    watched.wait(11, 3)
    watched.record(12, 2)
    assert watched.found() == [("SYN401", 30)]


def test_a_new_event_in_each_iteration_is_not_a_ring(watched):
    for event in (11, 12):
        watched.events.add(event, 110)
        watched.wait(event, 3)
        watched.record(event, 2)
    assert watched.found() == [("SYN401", 30)]


def test_a_host_wait_before_the_record_does_nothing(watched):
    watched.events.sync(7, 30)
    assert watched.found() == [("SYN401", 30)]
    assert watched.history.ineffective_wait(0, 0).site == 30


def test_waits_made_by_torch_are_not_reported(watched):
    watched.wait(7, 3, via=WaitCall.TORCH)
    assert watched.found() == []
    assert list(watched.history.waits_after(0)) == []


# -- redundant waits


def test_a_wait_that_never_adds_order_is_redundant(watched):
    watched.work(2)
    watched.record(7, 2)
    watched.wait(7, 3, 30)
    watched.wait(7, 3, 31)
    assert watched.found() == [("SYN802", 31)]


def test_a_redundant_wait_made_by_torch_is_not_reported(watched):
    watched.text.stacks[31] = (Frame("torch/distributed/fsdp.py", 1, is_user=False), Frame("program.py", 31))
    watched.work(2)
    watched.record(7, 2)
    for site in (30, 31, 32):
        watched.wait(7, 3, site)
    assert watched.found() == [("SYN802", 32)]


def test_a_wait_needed_in_one_iteration_is_not_redundant(watched):
    for _ in range(2):
        watched.work(2)
        watched.record(7, 2)
        watched.wait(7, 3, 30)
    watched.wait(7, 3, 30)
    assert watched.found() == []


def test_a_wait_for_work_the_host_already_waited_for_is_not_judged(watched):
    watched.work(2)
    watched.record(7, 2)
    watched.engine.sync_device(0)
    watched.wait(7, 3)
    assert watched.found() == []


def test_a_wait_after_a_host_wait_for_the_same_record_is_redundant(watched):
    watched.work(2)
    watched.record(7, 2)
    watched.events.sync(7, 29)
    watched.wait(7, 3)
    assert watched.found() == [("SYN802", 30)]


def test_a_host_wait_in_another_thread_makes_no_wait_redundant(watched):
    watched.work(2)
    watched.record(7, 2)
    watched.engine.switch_host(2)
    watched.events.sync(7, 29)
    watched.engine.switch_host(MAIN_THREAD)
    watched.engine.acquire_all()  # the other thread may have informed this one unseen
    watched.wait(7, 3)
    assert watched.found() == []


def test_an_ordering_assumed_after_a_race_makes_no_wait_redundant(watched):
    watched.work(2)
    watched.record(7, 2)
    watched.wait(7, 3, 29)
    watched.events.assumed_ordered.add(3)
    watched.wait(7, 3, 31)
    assert watched.found() == []


@pytest.mark.parametrize(("via", "found"), [(STREAM_WAIT, [("SYN802", 30)]), (EVENT, [])])
def test_a_stream_waiting_for_itself_is_redundant_only_through_its_own_method(watched, via, found):
    watched.work(2)
    watched.record(7, 2)
    watched.wait(7, 2, via=via)
    assert watched.found() == found


def test_a_line_needed_by_one_caller_is_not_redundant(watched):
    watched.text.location = lambda site, location=watched.text.location: location(30 if site in {30, 31} else site)
    watched.work(2)
    watched.record(7, 2)
    watched.wait(7, 3, 30)
    watched.wait(7, 3, 31)
    assert watched.found() == []


# -- records


def test_an_unused_record_is_lost_when_another_stream_records_the_event(watched):
    epoch = watched.work(2)
    watched.record(7, 2, 20)
    watched.record(7, 3, 21)
    (lost,) = watched.history.lost_covering(epoch)
    assert (lost.event, lost.stream, lost.site, lost.second_site) == (7, 2, 20, 21)


@pytest.mark.parametrize("use", ["wait", "sync", "same stream"])
def test_a_used_record_is_not_lost(watched, use):
    epoch = watched.work(2)
    watched.record(7, 2, 20)
    if use == "wait":
        watched.wait(7, 3)
    elif use == "sync":
        watched.events.sync(7, 30)
    watched.record(7, 2 if use == "same stream" else 3, 21)
    assert list(watched.history.lost_covering(epoch)) == []


def test_the_newest_event_covering_an_operation_is_found(watched):
    epoch = watched.work(2)
    assert watched.events.newest_event_covering(epoch) == 0
    watched.record(7, 2)
    assert watched.events.newest_event_covering(epoch) == 7
    watched.record(8, 2)
    assert watched.events.newest_event_covering(epoch) == 8
    watched.events.drop(8)
    assert watched.events.newest_event_covering(epoch) == 7


def test_the_first_event_after_an_operation_on_its_stream_is_found(watched):
    for event in (5, 6):
        watched.events.add(event, 10 * event, timing=False)
    watched.record(6, 2)
    epoch = watched.work(2)
    assert watched.events.first_event_after(epoch, 2) == 0
    watched.record(7, 2)
    watched.work(2)
    watched.record(8, 2)
    watched.wait(8, 3)
    watched.record(5, 3)  # covers the operation, too, but also later work
    assert watched.events.first_event_after(epoch, 2) == 7
    watched.events.drop(7)
    assert watched.events.first_event_after(epoch, 2) == 8
    watched.events.drop(8)
    assert watched.events.first_event_after(epoch, 2) == 0


def test_an_event_has_the_device_of_its_last_record():
    watched = Watched(devices=2)
    assert watched.events.device(7) is None
    watched.record(7, 2)
    assert watched.events.device(7) == 1
    watched.record(7, 1)
    assert watched.events.device(7) == 0


def test_a_deleted_event_is_forgotten(watched):
    watched.record(7, 2)
    watched.events.drop(7)
    assert watched.engine.snapshot(7) is None
    assert (NamedKind.EVENT, 7) in watched.collector.names.gone


# -- elapsed time


def test_events_without_timing_have_no_elapsed_time():
    watched = Watched(timing=False)
    watched.events.elapsed(7, 8, 40)
    assert watched.found() == [("SYN403", 40)]
    (finding,) = watched.collector.findings(watched.text)
    assert [(edit.line, edit.code) for edit in finding.fix.edits] == [
        (70, "enable_timing=True"), (80, "enable_timing=True"),
    ]  # fmt: skip


def timed(watched, stream=2, worker=2):
    watched.record(7, stream, 20)
    watched.work(worker)
    watched.record(8, stream, 21)


def test_reading_a_time_before_the_work_has_ended_is_reported(watched):
    timed(watched)
    assert watched.events.is_pending(8)
    watched.events.elapsed(7, 8, 40)
    assert watched.found() == [("SYN404", 40)]


def test_reading_a_time_after_a_synchronization_is_correct(watched):
    timed(watched)
    watched.events.sync(8, 22)
    assert not watched.events.is_pending(8)
    watched.events.elapsed(7, 8, 40)
    assert watched.found() == []


def test_a_stream_wait_mistaken_for_a_host_wait_is_blamed(watched):
    timed(watched)
    watched.wait(8, 3, 30, via=EVENT)
    watched.events.elapsed(7, 8, 40)
    assert watched.found() == [("SYN402", 30)]


def test_events_on_an_idle_stream_measure_nothing(watched):
    timed(watched, stream=1, worker=2)
    watched.engine.sync_device(0)
    watched.events.elapsed(7, 8, 40)
    assert watched.found() == [("SYN702", 21)]


def test_events_cannot_be_recorded_on_a_stream_of_torch(watched):
    watched.collector.names.streams[2] = StreamInfo(0, 2, UNKNOWN_SITE)
    timed(watched, stream=1, worker=2)
    watched.engine.sync_device(0)
    watched.events.elapsed(7, 8, 40)
    (finding,) = watched.collector.findings(watched.text)
    assert (finding.rule.code, finding.fix) == ("SYN702", None)
    assert "call `wait()` on the handles" in finding.help


def test_events_around_joined_work_measure_it(watched):
    watched.record(7, 1, 20)
    watched.work(2)
    watched.engine.wait_stream(1, 2)
    watched.record(8, 1, 21)
    watched.engine.sync_device(0)
    watched.events.elapsed(7, 8, 40)
    assert watched.found() == []


def test_events_that_were_never_recorded_are_not_judged(watched):
    watched.events.elapsed(7, 8, 40)
    assert watched.found() == []
    assert not watched.events.is_pending(7)


def test_the_fix_for_record_event_passes_an_event_with_timing():
    watched = Watched(timing=False)
    watched.record(7, 2, site=70)
    watched.events.elapsed(7, 8, 40)
    (finding,) = watched.collector.findings(watched.text)
    assert [edit.code for edit in finding.fix.edits] == [
        "record_event(torch.cuda.Event(enable_timing=True))", "enable_timing=True",
    ]  # fmt: skip


def test_a_wait_for_what_the_same_loop_records_later_is_for_the_next_iteration(watched):
    text = "event = make()\nfor i in range(1):\n    event.synchronize()\n    event.record()\n"
    watched.events.add(9, 1)
    watched.events.sync(9, 3)
    watched.record(9, 1, site=4)
    assert watched.collector.findings(Text(text)) == ()
