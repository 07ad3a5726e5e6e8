"""Waits between streams."""

from syncheck.lint.interp.joins import Joins
from syncheck.lint.interp.values import Block, Tensor


def made(ident, stream):
    return Tensor(Block(ident, 0, is_pinned=False, died=lambda _: None), stream=stream)


def test_a_wait_covers_earlier_tensors():
    joins = Joins()
    joins.note_wait_stream(1, 2, 5)
    assert joins.cover(made(5, 2), 1)
    assert not joins.cover(made(6, 2), 1)
    assert not joins.cover(made(5, 3), 1)
    assert not joins.cover(made(5, 2), 3)


def test_an_earlier_wait_does_not_shrink_the_cover():
    joins = Joins()
    joins.note_wait_stream(1, 2, 5)
    joins.note_wait_stream(1, 2, 3)
    assert joins.cover(made(5, 2), 1)


def test_a_wait_for_an_event_covers_tensors_made_before_its_record():
    joins = Joins()
    joins.note_record(7, 2, 4)
    joins.note_wait(1, 7)
    assert joins.cover(made(4, 2), 1)
    assert not joins.cover(made(5, 2), 1)


def test_a_wait_for_an_unrecorded_event_covers_nothing():
    joins = Joins()
    joins.note_wait(1, 7)
    assert not joins.cover(made(1, 1), 2)
    assert not joins.cover(made(0, 1), 1)
