"""Launch counts agree with those of the engine."""

from syncheck.cuda.launch_counts import LaunchCounts
from syncheck.hb.clock import TICK
from syncheck.sanitizer.session import Session
from syncheck.witness.schedule import LaunchId


class Streams:
    """Session with two streams, and the launch counts of its calls."""

    def __init__(self):
        self.session = Session(lambda rule: True, "none", lambda finding: None)
        self.counts = LaunchCounts(self.session)
        for stream in (1, 2):
            self.counts.stream(stream, 0, stream - 1, 0, legacy=stream == 1, blocking=False)

    def of_engine(self, stream):
        return self.session._engine.now(stream) // TICK


def test_the_next_launch_has_the_number_that_the_engine_assigns():
    streams = Streams()
    counts = streams.counts
    counts.launch(1, "aten::add", (), 0)
    counts.launches_elided(1, 3, 0)
    counts.launch(2, "aten::add", (), 0)
    counts.event(1, 0, timing=False)
    counts.record(1, 2, 0)
    assert (counts.next(1), counts.next(2)) == (LaunchId(1, 5), LaunchId(2, 2))
    assert (streams.of_engine(1), streams.of_engine(2)) == (4, 1)
    assert counts.has_launched(LaunchId(1, 4))
    assert not counts.has_launched(LaunchId(1, 5))


def test_captured_launches_count_only_when_replayed():
    streams = Streams()
    counts = streams.counts
    counts.capture_begin(1, 2, 0)
    counts.launch(2, "aten::add", (), 0)
    counts.capture_end(1)
    assert counts.next(2) == LaunchId(2, 1)
    counts.replay(1, 2, 0)
    assert counts.next(2) == LaunchId(2, 2)
    assert streams.of_engine(2) == 1


def test_an_allocation_is_tracked_by_stream_and_site_until_it_is_freed():
    counts = Streams().counts
    counts.allocate(5, 2, 64, 0, 3)
    assert counts.allocated == {5: (2, 3)}
    counts.free(5, 0)
    assert counts.allocated == {}


def test_a_snapshot_of_the_counts_does_not_change():
    counts = Streams().counts
    before = counts.snapshot()
    counts.launch(1, "aten::add", (), 0)
    assert before[1] == 0
