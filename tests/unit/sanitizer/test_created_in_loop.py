"""Streams and timing events that a loop creates on every iteration."""

import pytest

from syncheck.hb.ids import ObjectKind
from syncheck.sanitizer.created_in_loop import CreatedInLoop
from tests.unit.sanitizer.program import found, new_collector


def loop(kind, count, site=10, alive=1):
    """Create objects at one place, deleting all but the last few."""
    collector = new_collector()
    loops = CreatedInLoop(collector)
    for ident in range(count):
        loops.object_created(kind, ident, site)
        if ident >= alive:
            loops.object_destroyed(kind, ident - alive)
    return found(collector)


@pytest.mark.parametrize(("kind", "least"), [(ObjectKind.STREAM, 3), (ObjectKind.TIMING_EVENT, 8)])
def test_short_lived_objects_from_one_place_are_created_in_a_loop(kind, least):
    assert loop(kind, least - 1) == []
    assert loop(kind, least) == [("SYN805", 10, least)]


def test_every_iteration_is_counted():
    assert loop(ObjectKind.STREAM, 20) == [("SYN805", 10, 20)]


def test_the_previous_object_may_be_alive_until_its_name_is_rebound():
    assert loop(ObjectKind.STREAM, 6, alive=1) == [("SYN805", 10, 6)]
    assert loop(ObjectKind.STREAM, 6, alive=2) == []


def test_objects_that_stay_alive_are_a_pool():
    assert loop(ObjectKind.STREAM, 20, alive=99) == []


def test_each_place_is_counted_separately():
    collector = new_collector()
    loops = CreatedInLoop(collector)
    for ident in range(2):
        for site in (10, 20):
            loops.object_created(ObjectKind.STREAM, 100 * site + ident, site)
            loops.object_destroyed(ObjectKind.STREAM, 100 * site + ident)
    assert found(collector) == []


def test_an_unannounced_object_is_ignored():
    collector = new_collector()
    CreatedInLoop(collector).object_destroyed(ObjectKind.STREAM, 7)
    assert found(collector) == []
