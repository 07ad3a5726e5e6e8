"""Names of containers that hold an object among others."""

import sys
from collections import deque
from types import SimpleNamespace

import pytest

from syncheck.instrument.groups import group_in_frame


class Item:
    def __init__(self, ident):
        self.ident = ident


def of(value):
    return value.ident if isinstance(value, Item) else 0


def group_here(wanted):
    return group_in_frame(sys._getframe(1), of, wanted)


@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_sequences_are_searched(kind):
    streams = kind([Item(1), Item(2)])
    assert group_here(2) == "streams"
    assert group_here(3) == ""
    assert streams


def test_the_values_of_a_dict_are_searched():
    streams = {object(): Item(1), object(): Item(2)}
    assert group_here(2) == "streams.values()"
    assert streams


def test_a_container_held_by_an_object_is_found():
    pool = SimpleNamespace(streams=[Item(1)])
    assert group_here(1) == "pool.streams"
    assert pool


def test_a_container_with_other_objects_is_not_a_group():
    mixed, few = [Item(1), None], []
    assert group_here(1) == ""
    assert mixed != few


def test_a_very_large_container_is_not_a_group():
    many = [Item(1)] * 1000
    assert group_here(1) == ""
    assert many


def test_no_program_code_runs():
    class RaisingList(list):
        def __iter__(self):
            raise AssertionError

    raising = RaisingList([Item(1)])
    assert group_here(1) == "raising"
    assert list.__len__(raising) == 1
