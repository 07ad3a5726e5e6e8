"""The loops that are currently executing."""

import ast

import pytest

from syncheck.lint.interp.active_loops import ActiveLoops

TREE = ast.parse("for a in b:\n    for c in d:\n        inside()\nbehind()\n")
OUTER = TREE.body[0]
INNER = OUTER.body[0]
INSIDE, BEHIND = INNER.body[0], TREE.body[1]


def test_a_loop_is_active_while_it_is_iterated():
    loops = ActiveLoops()
    assert not loops
    with loops.iterating(OUTER):
        assert loops
    assert not loops


def test_a_node_is_in_the_loops_around_it():
    loops = ActiveLoops()
    assert not loops.around(INSIDE)
    with loops.iterating(INNER):
        assert loops.around(INSIDE)
        assert not loops.around(BEHIND)


def test_a_loop_ends_when_it_raises():
    loops = ActiveLoops()
    with pytest.raises(ZeroDivisionError), loops.iterating(OUTER):
        raise ZeroDivisionError
    assert not loops


def test_a_generators_loop_may_end_after_a_loop_that_began_later():
    loops = ActiveLoops()
    generator, other = loops.iterating(OUTER), loops.iterating(INNER)
    generator.__enter__()
    other.__enter__()
    generator.__exit__(None, None, None)
    assert loops.around(INSIDE)
    assert not loops.around(OUTER)
    other.__exit__(None, None, None)
    assert not loops


def test_a_node_without_a_line_is_in_no_loop():
    loops = ActiveLoops()
    with loops.iterating(OUTER):
        assert not loops.around(ast.Load())
