"""The border between the simulator and what checks."""

import pytest

from syncheck.sim.guarded_monitor import CapturedStreams, GuardedMonitor


class Checks:
    """A monitor that fails at launches.

    Attributes:
        calls: what it was asked.
        problems: why the check is not complete.
    """

    def __init__(self):
        self.calls, self.problems = [], []

    def launch(self, *args):
        self.calls.append(("launch", *args))
        raise KeyError("a mistake of ours")

    def view(self, *args, **kwargs):
        self.calls.append(("view", *args))
        return 5

    def incomplete(self, reason):
        self.problems.append(reason)

    def wait(self, *args):
        self.calls.append(("wait", *args))

    wait_stream = record = capture_begin = capture_end = wait


@pytest.fixture
def checks():
    return Checks()


@pytest.fixture
def monitor(checks):
    return GuardedMonitor(checks)


def test_calls_are_passed_on_with_their_results(monitor, checks):
    assert monitor.view(1, 2) == 5
    assert checks.calls == [("view", 1, 2)]
    assert monitor.view is monitor.view


@pytest.mark.parametrize("name", ["no_such_call", "_is_protocol", "__deepcopy__"])
def test_what_no_monitor_has_is_no_call(monitor, name):
    with pytest.raises(AttributeError, match=name):
        getattr(monitor, name)


def test_an_error_ends_the_check_and_not_the_program(monitor, checks):
    assert monitor.launch(1) == ()
    assert monitor.view(1) == 0  # what one answers who does not check
    assert monitor.launch(2) == ()
    assert checks.calls == [("launch", 1)]
    (problem,) = checks.problems
    assert problem.startswith(
        "syncheck itself failed and stopped checking: KeyError: 'a mistake of ours' at test_guarded"
    )
    assert problem.rpartition(":")[2] == str(Checks.launch.__code__.co_firstlineno + 2)


def test_calls_that_were_looked_up_before_end_too(monitor, checks):
    view = monitor.view
    monitor.launch(1)
    assert view(1) == 0


def test_a_block_that_fails_ends_the_check(monitor, checks):
    with monitor.guard:
        raise ZeroDivisionError
    assert monitor.view(1) == 0
    assert "ZeroDivisionError" in checks.problems[0]


def test_a_block_that_ends_well_changes_nothing(monitor, checks):
    with monitor.guard:
        pass
    assert monitor.view(1) == 5
    assert checks.problems == []


def test_only_the_first_error_is_reported(monitor, checks):
    monitor.fail(ValueError("one"))
    monitor.fail(ValueError("two"))
    assert checks.problems == ["syncheck itself failed and stopped checking: ValueError: one"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_no_error_of_syncheck(monitor, checks, error):
    with pytest.raises(error), monitor.guard:
        raise error
    assert checks.problems == []


def test_captures_are_followed_also_when_nothing_is_checked_any_more(monitor, checks):
    monitor.fail(ValueError())
    monitor.capture_begin(1, 2, 0)
    monitor.wait_stream(3, 2, 0)
    assert [monitor.capturing(stream) for stream in (1, 2, 3)] == [False, True, True]
    monitor.capture_end(1)
    assert not monitor.capturing(2)


def test_calls_that_are_followed_are_passed_on(monitor, checks):
    monitor.wait(1, 2, 0)
    assert checks.calls == [("wait", 1, 2, 0)]


# -- which streams are captured

GRAPH, EVENT = 1, 9


@pytest.fixture
def captured():
    streams = CapturedStreams()
    streams.follow("capture_begin", (GRAPH, 2, 0))
    return streams


def test_the_stream_of_a_capture_is_captured_until_its_end(captured):
    assert 2 in captured
    assert 1 not in captured
    captured.follow("capture_end", (GRAPH,))
    assert 2 not in captured


def test_a_stream_that_waits_for_captured_work_joins(captured):
    captured.follow("wait_stream", (3, 2, 0))
    captured.follow("wait_stream", (5, 4, 0))
    captured.follow("wait_stream", (2, 6, 0))
    assert [stream in captured for stream in (3, 4, 5, 6)] == [True, False, False, False]


def test_a_stream_that_waits_for_a_captured_event_joins(captured):
    captured.follow("record", (EVENT, 2, 0))
    captured.follow("record", (EVENT + 1, 4, 0))
    captured.follow("wait", (EVENT, 3, 0))
    captured.follow("wait", (EVENT + 1, 5, 0))
    assert [stream in captured for stream in (3, 5)] == [True, False]


def test_events_of_an_earlier_capture_are_forgotten(captured):
    captured.follow("record", (EVENT, 2, 0))
    captured.follow("capture_end", (GRAPH,))
    captured.follow("wait", (EVENT, 3, 0))
    assert 3 not in captured
    captured.follow("record", (EVENT, 2, 0))
    captured.follow("capture_begin", (GRAPH, 4, 0))
    captured.follow("wait", (EVENT, 3, 0))
    assert [stream in captured for stream in (2, 3, 4)] == [False, False, True]
