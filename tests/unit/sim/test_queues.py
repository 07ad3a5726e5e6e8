"""Queues of streams: predecessors of an entry run before it, whatever the policy decides."""

import pytest

from syncheck.sim.queues import Queues
from syncheck.witness.schedule import Hold, Holds, LaunchId


@pytest.fixture
def done():
    return []


def held(*holds):
    return Queues(Holds(tuple(Hold(LaunchId(*launch)) for launch in holds)))


def put(queues, stream, done, name):
    queues.put(stream, lambda: done.append(name))
    queues.count_launch(stream)
    queues.host_submitted()


def test_an_unheld_entry_runs_immediately(done):
    put(held(), 1, done, "a")
    assert done == ["a"]


def test_a_stream_runs_in_order(done):
    queues = held((1, 1))
    for name in "abc":
        put(queues, 1, done, name)
    assert done == []
    queues.finish(queues.mark(1))
    assert done == ["a", "b", "c"]


def test_a_waiting_stream_runs_after_the_awaited_work(done):
    queues = held((1, 1))
    put(queues, 1, done, "a")
    queues.wait(2, queues.mark(1))
    put(queues, 2, done, "b")
    put(queues, 3, done, "c")
    assert done == ["c"]
    queues.finish(queues.mark(2))
    assert done == ["c", "a", "b"]


def test_the_host_waits_for_no_more_than_requested(done):
    queues = held((1, 2))
    put(queues, 1, done, "a")
    marker = queues.mark(1)
    put(queues, 1, done, "b")
    queues.finish(marker)
    assert done == ["a"]
    assert queues.is_done(marker)
    assert not queues.is_free(1)


def test_a_held_stream_continues_once_the_other_launch_has_run(done):
    queues = Queues(Holds((Hold(LaunchId(1, 1), LaunchId(2, 1)),)))
    put(queues, 1, done, "a")
    put(queues, 2, done, "b")
    assert done == ["b", "a"]


def test_an_immediate_run_counts_as_a_launch(done):
    queues = Queues(Holds((Hold(LaunchId(1, 1), LaunchId(2, 1)),)))
    put(queues, 1, done, "a")
    queues.ran(2)
    queues.pump()
    assert done == ["a"]


def test_an_error_in_an_entry_is_raised_where_it_runs(done):
    queues = held((1, 1))

    def fail():
        raise ValueError("index out of range")

    queues.put(1, fail)
    queues.count_launch(1)
    put(queues, 1, done, "b")
    with pytest.raises(ValueError, match="index"):
        queues.finish_all()
    queues.finish_all()
    assert done == ["b"]


def test_an_unready_entry_runs_only_when_something_waits_for_it(done):
    queues, ready = held(), []
    queues.put(1, lambda: done.append("a"), is_ready=lambda: bool(ready))
    queues.put(2, lambda: done.append("b"), is_ready=lambda: bool(ready))
    queues.pump()
    assert done == []
    queues.finish(queues.mark(2))
    assert done == ["b"]
    ready.append(True)
    queues.pump()
    assert done == ["b", "a"]


def test_a_launch_in_a_separate_queue_is_held_like_one_of_its_stream(done):
    queues = held((1, 2))
    queues.put(-1, lambda: done.append("a"), launch=LaunchId(1, 2))
    queues.put(-2, lambda: done.append("b"), launch=LaunchId(1, 1))
    queues.pump()
    assert done == ["b"]
