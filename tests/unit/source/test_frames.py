"""Local variables of a frame."""

import weakref

from syncheck.source.frames import frame_at, locals_of


class Thing:
    """An object that supports weak references."""


def test_a_frame_does_not_keep_deleted_values_alive():
    thing = Thing()
    reference = weakref.ref(thing)
    assert locals_of(frame_at())["thing"] is thing
    del thing
    assert reference() is None


def test_the_programs_own_locals_are_not_changed():
    number = 3
    mine = locals()
    assert locals_of(frame_at())["number"] == number
    assert mine["number"] == number


def test_variables_keep_their_values_after_locals_of():
    number = 3
    locals_of(frame_at())
    number += 1
    assert locals_of(frame_at())["number"] == 4
    assert locals()["number"] == 4


def test_module_variables_keep_their_values():
    scope = {"frame_at": frame_at, "locals_of": locals_of}
    exec("x = 1\nfound = locals_of(frame_at())\nx += 1", scope)
    assert scope["x"] == 2
    assert scope["found"]["x"] == 1
