"""Threads as separate hosts, from plain calls: their ordering, and findings where there is none."""

import gzip
import json

import pytest

from syncheck.findings import Applicability
from syncheck.run.trace.codec import FORMAT
from syncheck.run.trace.replaying import replay
from syncheck.run.trace.writer import TraceWriter
from syncheck.sanitizer.session import Session
from tests.unit.sanitizer.program import Program

MAIN, LOADER, WRITER = 1, 2, 3
NAMES = {0: "", MAIN: "MainThread", LOADER: "loader", WRITER: "writer"}
QUEUE, START, OTHER = 7, 8, 9


class Threads(Program):
    """A program whose threads were all started, each ordered after the main thread's earlier calls."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.session.release(START)
        for thread in (LOADER, WRITER):
            self.become(thread)
            self.session.acquire(START)
        self.become(MAIN)

    def become(self, thread):
        self.session.host(thread, NAMES[thread])

    def hand_over(self, giver, taker, sync=QUEUE):
        self.become(giver)
        self.session.release(sync)
        self.become(taker)
        self.session.acquire(sync)


@pytest.fixture
def program():
    return Threads()


def copy_to_host(program, line=10):
    """Start an asynchronous copy into pinned memory on stream 2 and record an event after it."""
    buffer, done = program.allocate(0), program.event()
    program.write(2, buffer, line)
    program.session.record(done, 2, line)
    return buffer, done


def messages(program):
    finding = program.report().findings[0]
    return finding.message, [location.message for location in finding.related]


def test_a_wait_in_one_thread_does_not_order_another(program):
    buffer, done = copy_to_host(program)
    program.become(LOADER)
    program.session.acquire_all()  # it may have received the event in an unseen way
    program.session.sync_event(done, 20)
    program.host(buffer, 21)
    program.become(MAIN)
    program.host(buffer, 30)
    assert program.found() == [("SYN301", 30)]
    message, related = messages(program)
    assert message.endswith("in thread `MainThread`")
    assert "thread `loader` waits here: nothing orders thread `MainThread` after that" in related


def test_a_handover_transfers_the_order_of_the_giver(program):
    buffer, done = copy_to_host(program)
    program.hand_over(MAIN, LOADER)
    program.session.sync_event(done, 20)
    program.hand_over(LOADER, WRITER, OTHER)
    program.host(buffer, 30)
    program.hand_over(WRITER, MAIN)
    program.host(buffer, 31)
    assert program.found() == []


def test_unseen_communication_is_assumed_to_order_threads(program):
    buffer, done = copy_to_host(program)
    program.become(LOADER)
    program.session.acquire_all()
    program.session.sync_event(done, 20)
    program.become(MAIN)
    program.session.acquire_all()
    program.host(buffer, 30)
    assert program.found() == []


def test_a_thread_is_not_ordered_after_its_starters_later_calls(program):
    buffer, _ = copy_to_host(program)
    program.session.sync_device(0, 11)
    program.become(LOADER)
    program.host(buffer, 20)
    assert program.found() == [("SYN301", 20)]


def test_waits_of_threads_of_unknown_origin_order_every_thread(program):
    buffer, done = copy_to_host(program)
    program.become(0)
    program.session.sync_event(done, 20)
    for thread in (MAIN, LOADER, WRITER):
        program.become(thread)
        program.host(buffer, 30)
    assert program.found() == []


@pytest.mark.parametrize("is_ordered", [True, False])
def test_work_is_ordered_after_waits_of_its_submitter(program, is_ordered):
    data, done = program.allocate(1), program.event()
    program.write(1, data, 10)
    program.session.record(done, 1, 11)
    program.hand_over(MAIN, LOADER)
    program.session.sync_event(done, 20)
    if is_ordered:
        program.hand_over(LOADER, WRITER, OTHER)
    program.become(WRITER)
    program.read(2, data, 30)
    assert program.found() == ([] if is_ordered else [("SYN101", 30)])


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_wait_needs_the_record_to_happen_before_it(program, is_ordered):
    data, ready = program.allocate(1), program.event()
    program.become(LOADER)
    program.write(1, data, 10)
    if not is_ordered:
        program.session.release(QUEUE)  # put into the queue too early
    program.session.record(ready, 1, 12)
    if is_ordered:
        program.session.release(QUEUE)
    program.become(MAIN)
    program.session.acquire(QUEUE)
    program.session.wait(ready, 2, 20, "stream")
    program.read(2, data, 21)
    if is_ordered:
        assert program.found() == []
        return
    assert program.found() == [("SYN101", 21)]
    message, related = messages(program)
    assert message.endswith(", in thread `MainThread`")
    assert "this wait may come before the event's record" in related
    assert "thread `loader` records it here: nothing orders the wait after that" in related


def test_a_wait_uses_the_latest_record_that_happens_before_it(program):
    first, second, ready = program.allocate(1), program.allocate(1), program.event()
    program.write(1, first, 10)
    program.session.record(ready, 1, 11)
    program.hand_over(MAIN, LOADER)
    program.become(MAIN)
    program.write(1, second, 12)
    program.session.record(ready, 1, 13)
    program.become(LOADER)
    program.session.wait(ready, 2, 20, "stream")
    program.read(2, first, 21)
    assert program.found() == []
    program.read(2, second, 22)
    assert program.found() == [("SYN101", 22)]


def test_a_forgotten_record_in_a_ring_is_assumed_to_be_ordered(program):
    data, ready = program.allocate(1), program.event()
    program.write(1, data, 10)
    for _ in range(20):
        program.session.record(ready, 1, 11)
    program.become(LOADER)
    program.session.wait(ready, 2, 20, "stream")
    program.read(2, data, 21)
    assert program.found() == []


@pytest.mark.parametrize("is_ordered", [True, False])
def test_memory_read_by_a_thread_races_with_an_overwrite_from_another(program, is_ordered):
    buffer, done = copy_to_host(program)
    program.hand_over(MAIN, WRITER)
    program.session.sync_event(done, 20)
    program.host(buffer, 21)
    if is_ordered:
        program.hand_over(WRITER, MAIN)
    program.become(MAIN)
    program.session.sync_event(done, 29)
    program.write(2, buffer, 30)
    if is_ordered:
        assert program.found() == []
        return
    assert program.found() == [("SYN301", 21)]
    message, related = messages(program)
    assert message.endswith("in thread `writer`")
    assert "thread `MainThread` submits that here" in related[0]


def test_memory_written_by_a_thread_races_with_a_read_from_another(program):
    buffer = program.allocate(0)
    program.read(2, buffer, 10)
    program.session.sync_device(0, 11)
    program.hand_over(MAIN, WRITER)
    program.host(buffer, 21, is_write=True)
    program.become(MAIN)
    program.read(2, buffer, 30)
    program.read(2, buffer, 30)
    assert program.found() == [("SYN302", 21)]


def test_one_race_between_threads_is_one_finding(program):
    buffer, done = copy_to_host(program)
    program.hand_over(MAIN, LOADER)
    program.session.sync_event(done, 20)
    program.become(MAIN)
    for line in (30, 31, 32):
        program.host(buffer, line)
    assert program.found() == [("SYN301", 30)]


def test_memory_freed_by_a_thread_that_waited_may_be_reused(program):
    data, done = program.allocate(1), program.event()
    program.session.wait_stream(2, 1, 9)
    program.read(2, data, 10)
    program.session.record(done, 2, 11)
    program.hand_over(MAIN, WRITER)
    program.session.sync_event(done, 20)
    program.session.free(data, 21)  # through the allocator, whose lock orders threads
    program.become(MAIN)
    program.write(1, program.allocate(1), 30)
    assert program.found() == []


def test_a_reset_applies_to_all_threads(program):
    buffer, _ = copy_to_host(program)
    program.become(LOADER)
    program.session.reset()
    for thread in (LOADER, MAIN, WRITER):
        program.become(thread)
        program.host(buffer, 30)
    assert program.found() == []


def test_forgotten_threads_beyond_the_limit_are_assumed_to_be_ordered(program):
    buffer, done = copy_to_host(program)
    program.session.sync_event(done, 11)
    for thread in range(4, 3000):
        program.session.host(thread, f"thread {thread}")
        program.session.acquire_all()
    program.become(LOADER)  # forgotten
    program.host(buffer, 20)
    assert program.found() == []


def test_a_trace_preserves_threads(tmp_path):
    program = Threads()
    session = program.session = TraceWriter(Session(lambda _: True, "no GPU"), tmp_path / "t.gz", program, "x")
    session.stream(1, 0, 0, 0, legacy=True, blocking=False)
    session.stream(2, 0, 1, 0, legacy=False, blocking=False)
    program.view = session.view(0, (1024,), (1,), 4, "float32")
    buffer, done = copy_to_host(program)
    program.hand_over(MAIN, LOADER)
    session.sync_event(done, 20)
    session.forget_sync(QUEUE)
    program.become(MAIN)
    program.host(buffer, 30)
    session.close()
    lines = gzip.decompress((tmp_path / "t.gz").read_bytes()).splitlines()
    assert json.loads(lines[0])["syncheck-trace"] == FORMAT
    replayed = replay([tmp_path / "t.gz"], lambda backend: Session(lambda _: True, backend))
    assert [(f.rule.code, f.message) for f in replayed.findings] == [
        (f.rule.code, f.message) for f in session.report(program).findings
    ]
    assert [f.rule.code for f in replayed.findings] == ["SYN301"]


def test_threads_that_run_the_same_line_need_a_lock_around_it():
    program = Threads(streams=3)
    x = program.allocate(2)
    for thread, stream in ((LOADER, 2), (WRITER, 3)):
        program.become(thread)
        program.write(stream, x, 12)
    (finding,) = (f for f in program.report().findings if f.rule.code == "SYN103")
    assert finding.help.endswith("and hold a lock around both lines")
    assert finding.fix.applicability is Applicability.EXAMPLE
