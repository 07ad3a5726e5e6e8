"""The boundary between the simulator and the checker."""

import pytest

from syncheck.sim.guarded_monitor import CapturedStreams, GuardedMonitor


class Checks:
    """Monitor that fails at launches.

    Attributes:
        calls: calls received.
        problems: reasons why the check is incomplete.
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


def test_calls_are_forwarded_with_their_results(monitor, checks):
    assert monitor.view(1, 2) == 5
    assert checks.calls == [("view", 1, 2)]
    assert monitor.view is monitor.view


@pytest.mark.parametrize("name", ["no_such_call", "_is_protocol", "__deepcopy__"])
def test_unknown_names_are_not_calls(monitor, name):
    with pytest.raises(AttributeError, match=name):
        getattr(monitor, name)


def test_an_internal_error_ends_the_check_but_not_the_program(monitor, checks):
    assert monitor.launch(1) == ()
    assert monitor.view(1) == 0  # the answer of a monitor that does not check
    assert monitor.launch(2) == ()
    assert checks.calls == [("launch", 1)]
    (problem,) = checks.problems
    assert problem.startswith(
        "syncheck itself failed and stopped checking: KeyError: 'a mistake of ours' at test_guarded"
    )
    assert problem.rpartition(":")[2] == str(Checks.launch.__code__.co_firstlineno + 2)


def test_methods_looked_up_earlier_also_stop_checking(monitor, checks):
    view = monitor.view
    monitor.launch(1)
    assert view(1) == 0


def test_a_block_that_fails_ends_the_check(monitor, checks):
    with monitor.guard:
        raise ZeroDivisionError
    assert monitor.view(1) == 0
    assert "ZeroDivisionError" in checks.problems[0]


def test_a_block_that_succeeds_changes_nothing(monitor, checks):
    with monitor.guard:
        pass
    assert monitor.view(1) == 5
    assert checks.problems == []


def test_only_the_first_error_is_reported(monitor, checks):
    monitor.fail(ValueError("one"))
    monitor.fail(ValueError("two"))
    assert checks.problems == ["syncheck itself failed and stopped checking: ValueError: one"]


def test_the_first_error_can_be_repeated_for_another_report(monitor, checks):
    monitor.repeat_failure()
    assert checks.problems == []
    monitor.fail(ValueError("one"))
    monitor.fail(ValueError("two"))
    monitor.repeat_failure()
    assert checks.problems == ["syncheck itself failed and stopped checking: ValueError: one"] * 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exceptions_that_end_the_program_are_not_internal_errors(monitor, checks, error):
    with pytest.raises(error), monitor.guard:
        raise error
    assert checks.problems == []


def test_captures_are_tracked_after_the_check_has_ended(monitor, checks):
    monitor.fail(ValueError())
    monitor.capture_begin(1, 2, 0)
    monitor.wait_stream(3, 2, 0)
    assert [monitor.capturing(stream) for stream in (1, 2, 3)] == [False, True, True]
    monitor.capture_end(1)
    assert not monitor.capturing(2)


def test_tracked_calls_are_forwarded(monitor, checks):
    monitor.wait(1, 2, 0)
    assert checks.calls == [("wait", 1, 2, 0)]


# -- captured streams

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


def test_a_stream_that_waits_for_captured_work_joins_the_capture(captured):
    captured.follow("wait_stream", (3, 2, 0))
    captured.follow("wait_stream", (5, 4, 0))
    captured.follow("wait_stream", (2, 6, 0))
    assert [stream in captured for stream in (3, 4, 5, 6)] == [True, False, False, False]


def test_a_stream_that_waits_for_a_captured_event_joins_the_capture(captured):
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
