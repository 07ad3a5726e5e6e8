"""The bounded history of synchronization calls, newest first."""

import pytest

from syncheck.hb.clock import TICK
from syncheck.hb.ids import StreamOrigin
from syncheck.sanitizer import sync_history
from syncheck.sanitizer.sync_history import HostSync, LostRecord, SyncHistory, UnorderedWait, Wait

BY_NAME = (StreamOrigin.BY_NAME, StreamOrigin.BY_NAME)


def epoch(stream, time):
    return time * TICK | stream


def clock(*times):
    """Return a clock of streams 1, 2... at some times."""
    return [0, *(epoch(stream, time) for stream, time in enumerate(times, 1))]


def wait(site, waiter, submitted, acquired, **kwargs):
    return Wait(site, waiter, 0, 5, submitted, acquired, by_event=True, origins=BY_NAME, **kwargs)


def test_a_wait_follows_earlier_submissions_and_covers_what_it_waited_for():
    made = wait(1, 2, clock(3, 1), clock(2, 0))
    assert made.follows(epoch(1, 3))
    assert not made.follows(epoch(1, 4))
    assert made.covers(epoch(1, 2))
    assert not made.covers(epoch(1, 3))


def test_a_wait_without_effect_covers_nothing():
    assert not wait(1, 2, clock(3, 1), None).covers(epoch(1, 1))


def test_a_stream_created_later_is_not_in_the_clock():
    assert not wait(1, 2, clock(3), clock(3)).follows(epoch(2, 1))
    assert not HostSync(1, 0, clock(3)).follows(epoch(2, 1))
    assert not LostRecord(5, 1, 1, 2, clock(3)).covers(epoch(2, 1))


def test_calls_after_an_operation_are_returned_newest_first():
    history = SyncHistory(lambda host, moment: True)
    for site, time in ((1, 1), (2, 2), (3, 3)):
        history.add_wait(wait(site, 2, clock(time), clock(time)))
        history.add_sync(HostSync(site, 0, clock(time)))
        history.add_lost(LostRecord(5, 1, site, 9, clock(time)))
    assert [made.site for made in history.waits_after(epoch(1, 2))] == [3, 2]
    assert [made.site for made in history.syncs_after(epoch(1, 2))] == [3, 2]
    assert [lost.site for lost in history.lost_covering(epoch(1, 3))] == [3]


def test_an_idle_wait_belongs_to_the_same_actor_and_waited_for_nothing():
    history = SyncHistory(lambda host, moment: True)
    history.add_wait(wait(1, 2, clock(1), None))
    history.add_wait(wait(2, 2, clock(2), clock(2)))
    history.add_wait(wait(3, 3, clock(2), None))
    assert history.ineffective_wait(2, epoch(1, 1)).site == 1
    assert history.ineffective_wait(2, epoch(1, 2)) is None
    assert history.ineffective_wait(3, epoch(1, 2)).site == 3


@pytest.mark.parametrize("extra", [0, 7])
def test_the_oldest_calls_are_forgotten(extra):
    history, kept = SyncHistory(lambda host, moment: True), sync_history._KEPT
    for site in range(kept + extra):
        history.add_sync(HostSync(site, 0, clock(1)))
    sites = [made.site for made in history.syncs_after(epoch(1, 1))]
    assert (len(sites), sites[0], sites[-1]) == (kept, kept + extra - 1, extra)


def test_a_synchronize_that_was_needed_once_stays_needed():
    history = SyncHistory(lambda host, moment: True)
    for site, is_needed in ((1, False), (1, True), (1, False), (2, False)):
        history.add_sync(HostSync(site, 0, clock(2), is_needed=is_needed))
    assert [made.is_needed for made in history.syncs_after(epoch(1, 1))] == [False, True, True, False]


def test_a_sync_by_a_thread_unordered_with_the_host_may_be_too_late():
    history = SyncHistory(lambda host, moment: (host, moment) == (2, 5))
    history.add_sync(HostSync(1, 0, clock(2), host=2, moment=5))
    history.add_sync(HostSync(2, 0, clock(2), host=2, moment=6))
    assert [made.site for made in history.syncs_after(epoch(1, 1))] == [1]
    assert history.unordered_sync_after(epoch(1, 1)).site == 2
    assert history.unordered_sync_after(epoch(1, 3)) is None


def test_the_newest_wait_for_an_unordered_record_is_found():
    history = SyncHistory(lambda host, moment: True)
    for site, waiter, time in ((1, 2, 3), (2, 2, 1), (3, 3, 3)):
        history.add_unordered(UnorderedWait(site, waiter, clock(time), 9, 2))
    assert history.unordered_wait(2, epoch(1, 1)).site == 2
    assert history.unordered_wait(2, epoch(1, 2)).site == 1
    assert history.unordered_wait(2, epoch(1, 4)) is None
