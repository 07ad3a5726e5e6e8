"""Vector clocks: what one actor knows of the others."""

from syncheck.hb.clock import ACTOR_MASK, TICK, covers, join

FIRST, SECOND = 1, 2


def test_every_clock_covers_the_epoch_of_nothing():
    assert covers([0, 0], 0)


def test_a_clock_covers_what_it_knows_and_what_came_before():
    clock = [0, 2 * TICK | FIRST]
    assert covers(clock, TICK | FIRST)
    assert covers(clock, 2 * TICK | FIRST)


def test_a_clock_does_not_cover_what_came_later():
    assert not covers([0, 2 * TICK | FIRST], 3 * TICK | FIRST)


def test_a_clock_made_before_an_actor_existed_covers_nothing_of_it():
    assert not covers([0, TICK | FIRST], TICK | SECOND)


def test_join_keeps_the_later_of_each_actor():
    clock = [0, 3 * TICK | FIRST, TICK | SECOND]
    assert join(clock, [0, 2 * TICK | FIRST, 5 * TICK | SECOND])
    assert clock == [0, 3 * TICK | FIRST, 5 * TICK | SECOND]


def test_join_with_what_is_known_changes_nothing():
    clock = [0, 3 * TICK | FIRST, TICK | SECOND]
    assert not join(clock, [0, 2 * TICK | FIRST, TICK | SECOND])
    assert clock == [0, 3 * TICK | FIRST, TICK | SECOND]


def test_join_takes_a_clock_that_is_older_than_an_actor():
    clock = [0, TICK | FIRST, TICK | SECOND]
    assert join(clock, [0, 2 * TICK | FIRST])
    assert clock == [0, 2 * TICK | FIRST, TICK | SECOND]


def test_an_epoch_names_its_actor():
    assert (7 * TICK | SECOND) & ACTOR_MASK == SECOND
