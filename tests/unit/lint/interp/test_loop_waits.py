"""Loops whose every iteration waits for a stream."""

import ast

import pytest

from syncheck.hb.ids import SiteId, StreamId
from syncheck.lint.interp.loop_waits import LoopWaits

START, END, STREAM, OTHER = SiteId(1), SiteId(2), StreamId(1), StreamId(2)
CONTINUE, PASS = ast.parse("for x in y:\n    continue\n    pass").body[0].body


def launch(loops):
    loops.note_launch(STREAM)


def wait(loops):
    loops.note_wait([STREAM])


def wait_if(loops):
    with loops.conditional():
        wait(loops)


def wait_elsewhere(loops):
    loops.note_wait([OTHER])


def skip(loops):
    loops.pass_by([PASS, CONTINUE])


def warn(loops):
    loops.pass_by([CONTINUE, PASS])


def read(loops):
    loops.read_clock(END, [STREAM])


def run(steps, *, times=3, after=(), restarts=False):
    """Return the remainders of an interval that starts before a loop and ends at `read`."""
    loops = LoopWaits()
    loops.read_clock(START, [])
    loop = loops.begin()
    for _ in range(times):
        with loops.iterating(loop):
            for step in steps:
                step(loops)
            if restarts:
                loops.read_clock(START, [STREAM])
    for step in after:
        step(loops)
    return loops.remainders


@pytest.mark.parametrize(
    ("steps", "is_small"),
    [
        ([wait, launch], True),
        ([launch, wait, launch], True),
        ([launch], False),
        ([wait_elsewhere, launch], False),
        ([wait_if, launch], False),
        ([skip, wait, launch], False),
        ([wait, skip, launch], True),
        ([warn, wait, launch], True),
    ],
)
def test_each_iteration_has_to_wait(steps, is_small):
    assert run(steps, after=[read]) == ({(START, END)} if is_small else set())
    assert run([*steps, read]) == ({(START, END)} if is_small else set())


def test_a_clock_may_be_read_before_an_iteration_waits():
    assert run([launch, read, wait]) == {(START, END)}


def test_work_after_the_loop_counts():
    assert run([wait, launch], after=[launch, read]) == set()


def test_one_iteration_says_nothing_about_others():
    assert run([wait, launch], times=1, after=[read]) == set()
    assert run([wait, launch, read], times=1) == set()


def test_an_interval_that_begins_in_the_loop_is_one_of_an_iteration():
    assert run([wait, launch, read], restarts=True) == set()


@pytest.mark.parametrize(("begins_in", "expected"), [(0, {(START, END)}), (1, set())])
def test_an_interval_of_several_iterations_may_begin_in_the_loop(begins_in, expected):
    loops = LoopWaits()
    loop = loops.begin()
    for number in range(3):
        with loops.iterating(loop):
            if number == begins_in:
                with loops.conditional():
                    loops.read_clock(START, [])
            wait(loops)
            launch(loops)
            if number == 1:
                with loops.conditional():
                    read(loops)
    assert loops.remainders == expected


def test_a_loop_under_a_condition_may_wait_unconditionally():
    loops = LoopWaits()
    loops.read_clock(START, [])
    with loops.conditional():
        loop = loops.begin()
        for _ in range(2):
            with loops.iterating(loop):
                wait(loops)
                assert list(loops.conditionally(iter([3]))) == [3]
                launch(loops)
    read(loops)
    assert loops.remainders == {(START, END)}
