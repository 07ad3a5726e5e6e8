"""Timing of operators with events, with a fake driver whose clock advances at each record."""

import pytest
import torch

from syncheck.overlap.recorder import Recorder
from syncheck.sanitizer.session import Session
from tests.unit.conftest import watched_gpu

US = 1000


class Driver:
    """Fake driver: events are numbers, and each record advances the clock by 10 us."""

    def __init__(self):
        self.now = 0
        self.times = {}
        self.made = 0
        self.records = []
        self.is_behind = False  # the GPU is behind: no event is complete

    def make(self, device):
        self.made += 1
        return self.made

    def record(self, event, device, stream):
        self.now += 10 * US
        self.times[event] = self.now
        self.records.append((event, device, stream))
        return True

    def is_complete(self, event):
        return not self.is_behind

    def wait(self, event):
        return 5_000_000 + self.times[event]

    def nanoseconds(self, start, end):
        return self.times[end] - self.times[start]


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def gpu(on_cpu, driver):
    with watched_gpu(on_cpu, lambda: driver) as stand_in:
        yield stand_in


def measured(gpu):
    """Return the graph built from the recorded calls."""
    recorder = Recorder(Session(lambda _: True, "a stand-in"))
    gpu.cuda.timing.finish()
    gpu.cuda.flush_calls()
    for name, *arguments in gpu.monitor.calls:
        keywords = [a for a in arguments if isinstance(a, tuple) and a and isinstance(a[0], str)]
        getattr(recorder, name)(*(a for a in arguments if a not in keywords), **dict(keywords))
    return recorder.graph()


def test_each_operator_is_enclosed_by_two_events_of_its_stream(gpu, driver):
    gpu.current.handle = 7
    torch.ones(4, device=torch.device("cpu")).neg_()
    handles = [stream for _, _, stream in driver.records]
    assert handles[-2:] == [7, 7]


def test_operators_get_their_measured_times(gpu):
    a = torch.ones(4)
    a.neg_()
    graph = measured(gpu)
    neg = next(op for op in graph.ops if op.operator == "aten::neg_")
    assert (neg.nanoseconds, neg.began >= 0) == (10 * US, True)
    assert graph.measured


def test_operators_that_access_no_memory_are_not_measured(gpu, driver):
    a = torch.ones(4)
    before = len(driver.records)
    a.view(2, 2)
    assert len(driver.records) == before


def test_every_operator_is_forwarded_and_measured_once(gpu):
    a = torch.ones(4)
    for _ in range(3):
        a.neg_()
    graph = measured(gpu)
    began = [op.began for op in graph.ops if op.operator == "aten::neg_"]
    assert len(set(began)) == 3
    assert graph.elided == 0


def test_completed_operators_are_read_during_the_run_and_their_events_reused(gpu, driver, monkeypatch):
    monkeypatch.setattr("syncheck.cuda.timing._MAX_PENDING", 8)
    a = torch.ones(4)
    for _ in range(200):
        a.neg_()
    assert driver.made < 40
    assert len(gpu.monitor.named("times")) > 10


def test_operators_that_are_still_pending_are_read_later(gpu, driver, monkeypatch):
    monkeypatch.setattr("syncheck.cuda.timing._MAX_PENDING", 2)
    driver.is_behind = True
    a = torch.ones(4)
    for _ in range(5):
        a.neg_()
    assert gpu.monitor.named("times") == []
    assert measured(gpu).measured == len([call for call in gpu.monitor.calls if call[0] == "timed"])


def test_nothing_is_measured_during_a_capture(gpu, driver):
    a = torch.ones(4)
    before = len(driver.records)
    gpu.cuda.captures.begin()
    a.neg_()
    gpu.cuda.captures.end()
    assert len(driver.records) == before


def test_a_clock_that_goes_backwards_yields_a_note_instead_of_a_time(gpu, driver, monkeypatch):
    a = torch.ones(4)
    monkeypatch.setattr(driver, "nanoseconds", lambda start, end: -5)
    a.neg_()
    graph = measured(gpu)
    assert graph.measured == 0
    assert "went backwards" in next(iter(graph.notes))


def limited(gpu, most, launches):
    gpu.cuda.timing.most = most
    a = torch.ones(4)
    for _ in range(launches):
        a.neg_()
    return a


def test_measuring_stops_at_the_limit_and_condensing_resumes(gpu, driver):
    limited(gpu, 5, 100)
    assert driver.made <= 2 * 5 + 1
    assert len(gpu.monitor.named("timed")) == 5
    assert gpu.cuda.reporter.call_buffer.condenses
    graph = measured(gpu)
    assert (len(graph.ops), graph.measured, graph.left_out) == (6, 5, 95)
    assert not graph.is_timing_complete


def test_the_next_program_is_measured_again(gpu):
    a = limited(gpu, 5, 100)
    gpu.cuda.flush_calls()
    gpu.cuda.start_program()
    gpu.monitor.calls.clear()
    a.neg_()
    assert not gpu.cuda.reporter.call_buffer.condenses
    assert len(gpu.monitor.named("timed")) == 1


def test_a_failing_operator_does_not_affect_later_measurements(gpu):
    a = torch.ones(4)
    with pytest.raises(RuntimeError):
        torch.mm(a, a)
    a.neg_()
    assert [op.began >= 0 for op in measured(gpu).ops if op.operator == "aten::neg_"] == [True]
