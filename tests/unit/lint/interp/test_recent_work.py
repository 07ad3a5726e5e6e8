"""The work since a clock was read first."""

import pytest

from syncheck.hb.ids import NamedKind
from syncheck.lint.interp.recent_work import RecentWork


class Session:
    """Knows which streams are busy."""

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


def submit(work, session, stream, *quick):
    for is_quick in quick:
        work.note(stream, "aten::mul", is_quick=is_quick)
        session.busy.add(stream)


def test_where_nothing_runs_there_is_nothing_to_miss(work):
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


def test_what_is_complete_is_forgotten_at_the_next_operator(work, session):
    submit(work, session, 1, False)
    session.busy.clear()
    assert not work.is_next_to_nothing()
    submit(work, session, 1, True)
    assert work.is_next_to_nothing()


def test_work_from_before_the_clock_was_read_is_not_noted(session):
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


def test_memory_that_goes_back_to_cuda_ends_all_work_before(work, session):
    submit(work, session, 1, False, False)
    work.flush()
    assert work.is_next_to_nothing()
    submit(work, session, 1, False)
    assert not work.is_next_to_nothing()


def test_before_the_first_reading_there_is_nothing_to_flush(session):
    made = RecentWork(session)
    made.flush()
    assert not made.is_next_to_nothing()


def test_what_the_host_has_waited_for_is_dropped(work, session):
    submit(work, session, 1, False)
    work.drop(1)
    work.drop(1)
    work.drop(2)
    assert work.is_next_to_nothing()
    submit(work, session, 1, False)
    assert not work.is_next_to_nothing()


def test_work_that_is_not_seen_is_nothing_to_miss_and_no_other_streams(work, session):
    work.note_timed(1)
    session.busy.add(1)
    assert work.is_next_to_nothing()
    assert work.is_only_taken(1)
    assert not work.is_only_taken(2)
    submit(work, session, 1, False)
    assert not work.is_only_taken(1)


def test_nothing_is_submitted_between_two_events_until_it_is(work, session):
    assert not work.is_at_event(1)
    work.note_event(1)
    assert work.is_at_event(1)
    submit(work, session, 1, True)
    assert not work.is_at_event(1)
