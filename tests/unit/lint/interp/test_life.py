"""Lifetimes of objects."""

from syncheck.lint.interp.life import Life


def test_the_end_is_reported_unless_the_object_is_kept():
    ended = []
    life, kept = Life(lambda: ended.append("life")), Life(lambda: ended.append("kept"))
    kept.keep()
    del life, kept
    assert ended == ["life"]
