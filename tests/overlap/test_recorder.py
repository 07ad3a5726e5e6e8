"""Which calls of a run are kept, and when recording stops."""

import pytest

from syncheck.overlap import recorder as module
from syncheck.overlap.recorder import Recorder
from syncheck.sanitizer.session import Session
from tests.unit.sanitizer.program import Program as Sites


@pytest.fixture
def recorder():
    one = Recorder(Session(lambda _: True, "a GPU"))
    one.stream(1, 0, 0, 0, legacy=True, blocking=False)
    one.view(0, (4,), (1,), 4, "float32")
    return one


def launch(recorder, times=1, allocation=1):
    for _ in range(times):
        recorder.launch(1, "aten::mul_", ((allocation, 0, True),), 0)


def test_operators_after_the_measured_ones_are_counted_but_not_kept(recorder):
    recorder.allocate(1, 1, 16, 0, 0)
    launch(recorder, 3)
    recorder.untimed()
    launch(recorder, 4)
    recorder.launches_elided(1, 10, 0)
    graph = recorder.graph()
    assert (len(graph.ops), graph.left_out, graph.is_timing_complete) == (3, 14, False)


def test_calls_beyond_the_limit_are_counted_but_not_kept(recorder, monkeypatch):
    monkeypatch.setattr(module, "MAX_CALLS", 8)
    few = Recorder(Session(lambda _: True, "a GPU"))
    few.stream(1, 0, 0, 0, legacy=True, blocking=False)
    few.view(0, (4,), (1,), 4, "float32")
    few.allocate(1, 1, 16, 0, 0)
    launch(few, 20)
    graph = few.graph()
    assert (len(graph.ops), graph.left_out, graph.is_timing_complete) == (5, 15, True)


def test_recording_restarts_for_the_next_program_with_the_live_memory(recorder):
    recorder.allocate(1, 1, 16, 0, 0)
    recorder.untimed()
    recorder.allocate(2, 1, 16, 0, 0)
    recorder.allocate(3, 1, 16, 0, 0)
    recorder.free(1, 0)
    recorder.free(3, 0)
    recorder.forget()
    launch(recorder, 2, allocation=2)
    graph = recorder.graph()
    assert (len(graph.ops), graph.left_out, set(graph.allocations)) == (2, 0, {2})


def test_the_check_continues_when_nothing_is_kept():
    session = Session(lambda _: True, "a GPU")
    recorder = Recorder(session)
    for stream in (1, 2):
        recorder.stream(stream, 0, stream - 1, 0, legacy=stream == 1, blocking=False)
    recorder.view(0, (4,), (1,), 4, "float32")
    recorder.untimed()
    recorder.allocate(1, 1, 16, 0, 0)
    launch(recorder)
    recorder.launch(2, "aten::mul_", ((1, 0, True),), 1)
    assert [finding.rule.code for finding in session.report(Sites()).findings] == ["SYN103"]
