"""Conditions whose value is not known."""

import ast

import pytest

from syncheck.lint.interp.decisions import Decisions


def condition(text):
    return ast.parse(text, mode="eval").body


def decided(decisions, *texts):
    return [decisions.decide(condition(text)) for text in texts]


def test_open_conditions_are_as_usual_unless_flipped():
    decisions = Decisions(frozenset({0, 2}))
    assert decided(decisions, "a", "b") == [False, True]
    assert decisions.decide(condition("c"), usual=False) is True
    assert decisions.decide(condition("d"), usual=False) is False


def test_the_same_condition_is_decided_in_the_same_way():
    decisions = Decisions(frozenset({0}))
    assert decided(decisions, "a.b > 1", "c", "a.b>1") == [False, True, False]
    assert decisions.decide(condition("a.b > 1"), usual=False) is False


@pytest.mark.parametrize("flipped", [frozenset(), frozenset({0})])
def test_its_negation_is_decided_the_other_way(flipped):
    decisions = Decisions(flipped)
    given = not flipped
    assert decided(decisions, "not a", "a", "not a") == [given, not given, given]


@pytest.mark.parametrize("flipped", [frozenset(), frozenset({0})])
def test_a_comparison_with_true_or_false_asks_for_the_same(flipped):
    decisions = Decisions(flipped)
    given = not flipped
    texts = ("a is True", "a", "a is False", "a is not True", "a is not False")
    assert decided(decisions, *texts) == [given, given, not given, not given, given]
    assert decided(decisions, "a is None") == [True]


def test_a_name_that_is_bound_again_opens_its_conditions():
    decisions = Decisions(frozenset({0, 1}))
    assert decided(decisions, "a", "ab") == [False, False]
    decisions.forget("a")
    assert decided(decisions, "ab", "a") == [False, True]


def test_other_paths_flip_all_of_few_conditions():
    decisions = Decisions()
    decided(decisions, "a", "b")
    assert decisions.others() == [frozenset({0, 1}), frozenset({0}), frozenset({1})]


def test_other_paths_flip_many_conditions_together_and_alone():
    decisions = Decisions()
    decided(decisions, *"abcd")
    assert decisions.others() == [frozenset(range(4)), *(frozenset({n}) for n in range(4))]


def test_guards_come_after_branches_and_what_prepares_comes_last():
    decisions = Decisions()
    decided(decisions, "before")
    decisions.begin()
    decisions.decide(condition("guard"), usual=False)
    decided(decisions, "branch")
    assert decisions.others() == [frozenset({2}), frozenset({1}), frozenset({0})]


def test_as_usual_opens_no_paths_and_keeps_what_was_decided():
    decisions = Decisions(frozenset({0, 1}))
    assert decided(decisions, "a") == [False]
    with decisions.usual():
        assert decided(decisions, "a", "not a", "b") == [True, False, True]
        assert decisions.decide(condition("c"), usual=False) is False
        assert decided(decisions, "not c") == [True]
    assert decided(decisions, "a", "b") == [False, False]


def test_what_was_decided_as_usual_is_open():
    decisions = Decisions()
    with decisions.usual():
        assert not decisions.are_open
        decided(decisions, "a")
    assert decisions.are_open
    assert decisions.others() == []
