"""The variables of a frame."""

import weakref

from syncheck.source.frames import frame_at, locals_of


class Thing:
    """Something that can be referred to weakly."""


def test_a_frame_keeps_nothing_that_the_program_has_deleted():
    thing = Thing()
    reference = weakref.ref(thing)
    assert locals_of(frame_at())["thing"] is thing
    del thing
    assert reference() is None


def test_what_the_program_has_got_from_locals_stays_as_it_is():
    number = 3
    mine = locals()
    assert locals_of(frame_at())["number"] == number
    assert mine["number"] == number


def test_variables_are_what_they_are_after_a_look_at_them():
    number = 3
    locals_of(frame_at())
    number += 1
    assert locals_of(frame_at())["number"] == 4
    assert locals()["number"] == 4


def test_the_variables_of_a_module_stay_in_place():
    scope = {"frame_at": frame_at, "locals_of": locals_of}
    exec("x = 1\nfound = locals_of(frame_at())\nx += 1", scope)
    assert scope["x"] == 2
    assert scope["found"]["x"] == 1
