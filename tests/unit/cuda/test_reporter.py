"""The reporter shared by all parts of the CUDA backend."""

import pytest

from syncheck.cuda import reporter as module
from syncheck.cuda.reporter import Reporter
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable


class Monitor:
    def __init__(self):
        self.calls, self.reasons = [], []

    def free(self, *args):
        self.calls.append(("free", *args))

    def incomplete(self, reason):
        self.reasons.append(reason)


@pytest.fixture
def monitor():
    return Monitor()


@pytest.fixture
def reporter(monitor):
    made = Reporter(monitor, SiteTable(), lambda _: None, NewFindings())
    made.is_checking = True
    return made


def test_the_monitor_is_flushed_before_it_is_handed_out(reporter, monitor):
    order = []
    reporter.before_flush.append(lambda: reporter.call_buffer.add(("free", 2, 0)))
    reporter.before_call.append(lambda given: order.append((given is monitor, list(monitor.calls))))
    reporter.call_buffer.add(("free", 1, 0))
    with reporter.locked_monitor() as given:
        assert given is monitor
    assert order == [(True, [("free", 1, 0), ("free", 2, 0)])]


def test_new_findings_are_passed_on_with_the_tensors_of_the_call(reporter):
    named = []
    reporter.on_findings = named.append
    with reporter.locked_monitor(["x"]):
        pass
    assert named == []
    with reporter.locked_monitor(["x"]):
        reporter.findings.add(object())
    assert named == [["x"]]


def test_numbering_starts_at_1(reporter):
    for count in (reporter.next_event, reporter.next_graph, reporter.next_reading):
        assert (count(), count()) == (1, 2)


def test_a_call_site_is_that_of_the_program(reporter):
    site = reporter.site()
    assert reporter.sites.location(site).frame.source.strip() == "site = reporter.site()"


def test_callbacks_are_suppressed_in_blocks_and_while_not_checking(reporter):
    assert not reporter.callbacks_suppressed
    with reporter.suppressed(), reporter.suppressed():
        assert reporter.callbacks_suppressed
    assert not reporter.callbacks_suppressed
    reporter.is_checking = False
    assert reporter.callbacks_suppressed


def test_an_internal_failure_ends_the_check_but_not_the_program(reporter, monitor):
    with reporter.guard():
        raise KeyError("ours")
    assert not reporter.is_checking
    assert "syncheck itself failed and stopped checking: KeyError: 'ours' at test_reporter.py" in monitor.reasons[0]


def test_a_limited_number_of_operator_failures_is_tolerated(reporter, monitor, monkeypatch):
    monkeypatch.setattr(module, "_MAX_FAILURES", 2)
    for _ in range(2):
        reporter.report_failure("aten::add", KeyError("x"))
    assert reporter.is_checking
    assert monitor.reasons == ["aten::add could not be logged: KeyError: 'x'"] * 2
    reporter.report_failure("aten::add", KeyError("x"))
    assert not reporter.is_checking


def test_a_forked_child_reports_nothing(reporter, monitor):
    reporter.call_buffer.add(("free", 1, 0))
    reporter.become_child()
    reporter.flush_calls()
    assert monitor.calls == []
    assert not reporter.is_checking
