"""Work since the first clock reading."""

import ast

import pytest

from syncheck.hb.ids import NamedKind
from syncheck.lint.interp.recent_work import QUICK, RecentWork


class Session:
    """Stores which streams are busy."""

    def __init__(self):
        self.busy = set()

    def is_pending(self, kind, stream):
        assert kind is NamedKind.STREAM
        return stream in self.busy


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def work(session):
    made = RecentWork(session)
    made.begin(1)
    return made


def read(work, session, *launches, waits=False):
    """Launch operators on a stream, let the host wait for them or not, and read a clock at site 2."""
    for operator in launches:
        work.note(1, operator, is_quick=False)
    session.busy = set() if waits else {1}


def test_intervals_that_miss_only_work_after_a_wait(work, session):
    read(work, session, "aten::mm", waits=True)
    read(work, session, "aten::mm")
    work.begin(2)
    assert work.intervals.parts == {(1, 2)}
    assert work.intervals.ends == set()


@pytest.mark.parametrize("short", ["aten::mul", "aten::add_", "aten::_foreach_add_", "aten::_to_copy"])
@pytest.mark.parametrize(("long", "are_ends"), [("aten::mm", True), ("unknown code", True), ("aten::sum", False)])
def test_intervals_that_miss_only_short_work_after_a_wait_for_long_work(work, session, short, long, are_ends):
    read(work, session, long, waits=True)
    read(work, session, short)
    work.begin(2)
    assert work.intervals.ends == ({(1, 2)} if are_ends else set())
    assert work.intervals.parts == {(1, 2)}


def test_work_that_was_awaited_before_the_interval_does_not_count(session):
    work = RecentWork(session)
    work.begin(0)
    read(work, session, "aten::mm", waits=True)
    work.begin(1)
    read(work, session, "aten::mul")
    work.begin(2)
    assert work.intervals.parts == {(0, 2)} == work.intervals.ends
    read(work, session, "aten::mm", waits=True)
    read(work, session, "aten::mul")
    work.begin(3)
    assert (1, 3) in work.intervals.ends


def test_an_interval_that_once_misses_all_its_work_counts_as_whole(work, session):
    read(work, session, "aten::mul")
    work.begin(2)
    work.begin(1)
    read(work, session, "aten::mm", waits=True)
    read(work, session, "aten::mul")
    work.begin(2)
    assert (1, 2) not in work.intervals.ends | work.intervals.parts


@pytest.mark.parametrize(
    ("call", "is_short"),
    [
        ("optimizer.step()", True), ("self.opts[0].step()", True), ("scaler.step(optimizer)", True),
        ("engine.step()", False), ("model(x)", False), ("step(x)", False),
    ],
)  # fmt: skip
def test_the_step_of_an_optimizer_is_short(work, session, call, is_short):
    read(work, session, "aten::mm", waits=True)
    read(work, session)
    session.busy = set()
    work.note_unknown(1, ast.parse(call, mode="eval").body, 7)
    session.busy = {1}
    work.begin(2)
    assert bool(work.intervals.ends) is is_short


def submit(work, session, stream, *quick):
    for is_quick in quick:
        work.note(stream, "aten::mul", is_quick=is_quick)
        session.busy.add(stream)


def test_without_work_there_is_nothing_to_miss(work):
    assert not work.is_next_to_nothing()


@pytest.mark.parametrize(
    ("operators", "expected"),
    [([True], True), ([True, True], True), ([True, True, True], False), ([False], False), ([True, False], False)],
)
def test_up_to_two_quick_operators_take_no_time(work, session, operators, expected):
    submit(work, session, 1, *operators)
    assert work.is_next_to_nothing() is expected


def test_work_on_any_stream_takes_time(work, session):
    submit(work, session, 1, True)
    submit(work, session, 2, False)
    assert not work.is_next_to_nothing()
    session.busy.remove(2)
    assert work.is_next_to_nothing()


def test_completed_work_is_forgotten_at_the_next_operator(work, session):
    submit(work, session, 1, False)
    session.busy.clear()
    assert not work.is_next_to_nothing()
    submit(work, session, 1, True)
    assert work.is_next_to_nothing()


def test_work_from_before_the_clock_reading_is_ignored(session):
    work = RecentWork(session)
    submit(work, session, 1, False)
    assert not work.is_next_to_nothing()
    work.begin(1)
    submit(work, session, 1, True)
    assert work.is_next_to_nothing()


def test_a_second_reading_forgets_nothing(work, session):
    submit(work, session, 1, False)
    work.begin(1)
    assert not work.is_next_to_nothing()
    submit(work, session, 1, True)
    assert not work.is_next_to_nothing()


def test_returning_memory_to_cuda_completes_all_earlier_work(work, session):
    submit(work, session, 1, False, False)
    work.flush()
    assert work.is_next_to_nothing()
    submit(work, session, 1, False)
    assert not work.is_next_to_nothing()


def test_flushing_before_the_first_reading_does_nothing(session):
    made = RecentWork(session)
    made.flush()
    assert not made.is_next_to_nothing()


def test_work_that_the_host_waited_for_is_dropped(work, session):
    submit(work, session, 1, False)
    work.drop(1)
    work.drop(1)
    work.drop(2)
    assert work.is_next_to_nothing()
    submit(work, session, 1, False)
    assert not work.is_next_to_nothing()


def test_assumed_work_is_distinguished_from_observed_work(work, session):
    work.note_timed(1)
    session.busy.add(1)
    assert work.is_next_to_nothing()
    assert work.is_only_taken(1)
    assert not work.is_only_taken(2)
    submit(work, session, 1, False)
    assert not work.is_only_taken(1)


def test_a_stream_is_at_an_event_until_work_is_submitted(work, session):
    assert not work.is_at_event(1)
    work.note_event(1)
    assert work.is_at_event(1)
    submit(work, session, 1, True)
    assert not work.is_at_event(1)


def test_making_an_index_is_quick():
    assert "aten::arange" in QUICK
    assert "aten::mul" not in QUICK
