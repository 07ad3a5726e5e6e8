"""Conditions whose value is not known."""

import ast

import pytest

from syncheck.lint.interp.decisions import Decisions


def condition(text):
    return ast.parse(text, mode="eval").body


def test_open_conditions_are_true_unless_given_otherwise():
    decisions = Decisions((False,))
    assert [decisions.decide(condition(text)) for text in ("a", "b", "c")] == [False, True, True]
    assert decisions.count == 3


def test_the_same_condition_is_decided_in_the_same_way():
    decisions = Decisions((False, True))
    assert decisions.decide(condition("a.b > 1")) is False
    assert decisions.decide(condition("c")) is True
    assert decisions.decide(condition("a.b>1")) is False
    assert decisions.count == 2


@pytest.mark.parametrize("given", [True, False])
def test_its_negation_is_decided_the_other_way(given):
    decisions = Decisions((given,))
    assert decisions.decide(condition("not a")) is given
    assert decisions.decide(condition("a")) is not given
    assert decisions.count == 1


def test_a_name_that_is_bound_again_opens_its_conditions():
    decisions = Decisions((False, True, False))
    for text in ("a", "ab"):
        decisions.decide(condition(text))
    decisions.forget("a")
    assert decisions.decide(condition("ab")) is True
    assert decisions.decide(condition("a")) is False
    assert decisions.count == 3
