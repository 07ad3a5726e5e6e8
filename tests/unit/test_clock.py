"""Vector clocks: what one actor is ordered after."""

from syncheck.hb.clock import ACTOR_MASK, TICK, covers, join

FIRST, SECOND = 1, 2


def test_every_clock_covers_the_zero_epoch():
    assert covers([0, 0], 0)


def test_a_clock_covers_its_epoch_and_earlier_ones():
    clock = [0, 2 * TICK | FIRST]
    assert covers(clock, TICK | FIRST)
    assert covers(clock, 2 * TICK | FIRST)


def test_a_clock_does_not_cover_later_epochs():
    assert not covers([0, 2 * TICK | FIRST], 3 * TICK | FIRST)


def test_a_clock_older_than_an_actor_covers_nothing_of_it():
    assert not covers([0, TICK | FIRST], TICK | SECOND)


def test_join_keeps_the_later_epoch_of_each_actor():
    clock = [0, 3 * TICK | FIRST, TICK | SECOND]
    assert join(clock, [0, 2 * TICK | FIRST, 5 * TICK | SECOND])
    assert clock == [0, 3 * TICK | FIRST, 5 * TICK | SECOND]


def test_join_with_an_older_clock_changes_nothing():
    clock = [0, 3 * TICK | FIRST, TICK | SECOND]
    assert not join(clock, [0, 2 * TICK | FIRST, TICK | SECOND])
    assert clock == [0, 3 * TICK | FIRST, TICK | SECOND]


def test_join_accepts_a_clock_older_than_an_actor():
    clock = [0, TICK | FIRST, TICK | SECOND]
    assert join(clock, [0, 2 * TICK | FIRST])
    assert clock == [0, 2 * TICK | FIRST, TICK | SECOND]


def test_an_epoch_names_its_actor():
    assert (7 * TICK | SECOND) & ACTOR_MASK == SECOND
