"""Calls mistaken for a host wait, or for a wait for the right device."""

from syncheck.hb.ids import NamedKind, StreamOrigin
from syncheck.sanitizer.messages import StreamInfo
from syncheck.sanitizer.mistaken_sync import mistaken_wait, wait_instead_of_sync, wrong_device
from syncheck.sanitizer.sync_history import HostSync, SyncHistory, Wait
from tests.unit.sanitizer.program import Text, new_collector, new_engine

BY_NAME = (StreamOrigin.BY_NAME, StreamOrigin.BY_NAME)


class Ordered:
    """Streams 1 and 2 with work on 2, and a wait for an event recorded on it."""

    def __init__(self, waiter, *, by_event=True, is_recorded=True):
        self.engine = new_engine(3)
        self.history = SyncHistory(lambda host, moment: True)
        self.engine.launch(2, (), 1)
        self.epoch = self.engine.now(2)
        if is_recorded:
            self.engine.record(7, 2)
        self.engine.wait(7, waiter)
        acquired = self.engine.snapshot(7)
        self.wait = Wait(12, waiter, 0, 7, self.engine.submitted(), acquired, by_event, BY_NAME)
        self.history.add_wait(self.wait)

    def found(self):
        return wait_instead_of_sync(self.history, self.engine, self.epoch)


def test_a_wait_on_a_stream_without_later_work_was_meant_for_the_host():
    assert Ordered(1).found() is not None


def test_a_wait_that_orders_later_work_was_not_meant_for_the_host():
    ordered = Ordered(1)
    ordered.engine.launch(1, (), 2)
    assert ordered.found() is None


def test_a_stream_waiting_for_its_own_event_was_meant_for_the_host():
    ordered = Ordered(2)
    ordered.engine.launch(2, (), 2)
    assert ordered.found() is ordered.wait


def test_only_an_event_wait_can_be_mistaken():
    assert Ordered(1, by_event=False).found() is None


def test_a_wait_that_does_not_cover_the_work_explains_nothing():
    assert Ordered(1, is_recorded=False).found() is None
    ordered = Ordered(1)
    ordered.engine.launch(2, (), 3)
    ordered.epoch = ordered.engine.now(2)
    assert ordered.found() is None


def worded(pending):
    collector = new_collector()
    collector.names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(1, 7, 3)}
    collector.names.given[NamedKind.EVENT, 7] = "done"
    collector.add(pending)
    text = Text("\n" * 11 + "done.wait()\ntorch.cuda.synchronize()\ns.synchronize()\n")
    (finding,) = collector.findings(text)
    return finding


def test_the_fix_of_a_mistaken_wait_calls_synchronize():
    finding = worded(mistaken_wait(Ordered(1).wait, ("then it is read",), [(20, ("here",))]))
    assert (finding.rule.code, finding.location.frame.line, finding.related[0].message) == ("SYN402", 12, "here")
    assert finding.fix.edits[0].code == "done.synchronize()"
    assert str(finding.fix.applicability) == "safe"


def test_the_fix_of_a_wait_for_the_wrong_device_names_the_right_one():
    sync = HostSync(13, 0, [0], is_device_wide=True)
    finding = worded(wrong_device(sync, 2, 1, ("then it is read",), []))
    assert (finding.rule.code, finding.location.frame.line) == ("SYN502", 13)
    assert "cuda:0" in finding.message
    assert finding.fix.edits[0].code == "torch.cuda.synchronize(1)"


def test_a_wait_that_its_own_device_needs_is_kept():
    sync = HostSync(13, 0, [0], is_device_wide=True, is_needed=True)
    finding = worded(wrong_device(sync, 2, 1, ("then it is read",), []))
    assert str(finding.fix.edits[0].kind) == "insert-before"
    assert finding.fix.edits[0].code.endswith(".cuda.synchronize(1)")


def test_the_fix_of_a_wait_for_the_wrong_stream_waits_for_the_device():
    finding = worded(wrong_device(HostSync(14, 0, [0]), 2, 1, ("then it is read",), []))
    assert str(finding.fix.edits[0].kind) == "insert-before"
    assert finding.fix.edits[0].code.endswith(".cuda.synchronize(1)")
    assert str(finding.fix.applicability) != "safe"
