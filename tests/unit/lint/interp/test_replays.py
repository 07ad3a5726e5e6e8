"""Counts of replays."""

from syncheck.lint.interp.replays import Replays


def test_each_graph_counts_its_own_replays():
    first, second = Replays(), Replays()
    first.taken[3] = first.count = 1
    first.reported.add(3)
    assert (second.count, second.taken, second.reported, second.is_picked) == (0, {}, set(), False)
