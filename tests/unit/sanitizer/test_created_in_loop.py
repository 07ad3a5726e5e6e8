"""Streams and timing events that a loop makes on every iteration."""

import pytest

from syncheck.hb.ids import ObjectKind
from syncheck.sanitizer.created_in_loop import CreatedInLoop
from tests.unit.sanitizer.program import found, new_collector


def loop(kind, count, site=10, alive=1):
    """Make objects at one place, all but the last few gone again."""
    collector = new_collector()
    loops = CreatedInLoop(collector)
    for ident in range(count):
        loops.object_created(kind, ident, site)
        if ident >= alive:
            loops.object_destroyed(kind, ident - alive)
    return found(collector)


@pytest.mark.parametrize(("kind", "least"), [(ObjectKind.STREAM, 3), (ObjectKind.TIMING_EVENT, 8)])
def test_objects_that_come_and_go_at_one_place_are_made_in_a_loop(kind, least):
    assert loop(kind, least - 1) == []
    assert loop(kind, least) == [("SYN805", 10, least)]


def test_every_iteration_counts():
    assert loop(ObjectKind.STREAM, 20) == [("SYN805", 10, 20)]


def test_the_one_before_may_be_alive_as_it_is_until_its_name_is_bound_again():
    assert loop(ObjectKind.STREAM, 6, alive=1) == [("SYN805", 10, 6)]
    assert loop(ObjectKind.STREAM, 6, alive=2) == []


def test_objects_that_stay_are_a_pool():
    assert loop(ObjectKind.STREAM, 20, alive=99) == []


def test_each_place_is_counted_by_itself():
    collector = new_collector()
    loops = CreatedInLoop(collector)
    for ident in range(2):
        for site in (10, 20):
            loops.object_created(ObjectKind.STREAM, 100 * site + ident, site)
            loops.object_destroyed(ObjectKind.STREAM, 100 * site + ident)
    assert found(collector) == []


def test_an_object_that_was_not_announced_is_none():
    collector = new_collector()
    CreatedInLoop(collector).object_destroyed(ObjectKind.STREAM, 7)
    assert found(collector) == []
