"""Decisions about unknown conditions."""

import ast

import pytest

from syncheck.lint.interp.decisions import Decisions, Turn, conditions


def condition(text):
    return ast.parse(text, mode="eval").body


def decided(decisions, *texts):
    return [decisions.decide(condition(text)) for text in texts]


def test_unknown_conditions_take_their_default_unless_flipped():
    decisions = Decisions(frozenset({0, 2}))
    assert decided(decisions, "a", "b") == [False, True]
    assert decisions.decide(condition("c"), by_default=False) is True
    assert decisions.decide(condition("d"), by_default=False) is False


def test_the_same_condition_is_always_decided_the_same_way():
    decisions = Decisions(frozenset({0}))
    assert decided(decisions, "a.b > 1", "c", "a.b>1") == [False, True, False]
    assert decisions.decide(condition("a.b > 1"), by_default=False) is False


@pytest.mark.parametrize("flipped", [frozenset(), frozenset({0})])
def test_a_negated_condition_is_decided_the_other_way(flipped):
    decisions = Decisions(flipped)
    given = not flipped
    assert decided(decisions, "not a", "a", "not a") == [given, not given, given]


@pytest.mark.parametrize("flipped", [frozenset(), frozenset({0})])
def test_comparisons_with_true_and_false_are_the_same_condition(flipped):
    decisions = Decisions(flipped)
    given = not flipped
    texts = ("a is True", "a", "a is False", "a is not True", "a is not False")
    assert decided(decisions, *texts) == [given, given, not given, not given, given]
    assert decided(decisions, "a is None") == [True]


def test_rebinding_a_name_reopens_its_conditions():
    decisions = Decisions(frozenset({0, 1}))
    assert decided(decisions, "a", "ab") == [False, False]
    decisions.forget("a")
    assert decided(decisions, "ab", "a") == [False, True]


def test_other_paths_flip_every_combination_of_few_conditions():
    decisions = Decisions()
    decided(decisions, "a", "b")
    assert decisions.others() == [frozenset({0, 1}), frozenset({0}), frozenset({1})]


def test_other_paths_flip_many_conditions_together_and_individually():
    decisions = Decisions()
    decided(decisions, *"abcd")
    assert decisions.others() == [frozenset(range(4)), *(frozenset({n}) for n in range(4))]


def test_guards_come_after_branches_and_preparation_comes_last():
    decisions = Decisions()
    decided(decisions, "before")
    decisions.begin()
    decisions.decide(condition("guard"), by_default=False)
    decided(decisions, "branch")
    assert decisions.others() == [frozenset({2}), frozenset({1}), frozenset({0})]


def test_a_decision_excludes_the_opposite():
    decisions = Decisions()
    decided(decisions, "a", "not b")
    asked = [condition(text) for text in ("a", "not a", "b", "not b", "a is False", "c")]
    assert [decisions.excludes(test) for test in asked] == [False, True, True, False, True, False]
    decisions.forget("a")
    assert not decisions.excludes(condition("not a"))


def test_usual_mode_opens_no_paths_and_keeps_earlier_decisions():
    decisions = Decisions(frozenset({0, 1}))
    assert decided(decisions, "a") == [False]
    with decisions.by_default():
        assert decided(decisions, "a", "not a", "b") == [True, False, True]
        assert decisions.decide(condition("c"), by_default=False) is False
        assert decided(decisions, "not c") == [True]
    assert decided(decisions, "a", "b") == [False, False]


def test_decisions_made_in_usual_mode_are_reported_as_open():
    decisions = Decisions()
    with decisions.by_default():
        assert not decisions.are_open
        decided(decisions, "a")
    assert decisions.are_open
    assert decisions.others() == []


def test_given_decisions_are_not_counted():
    decisions = Decisions(frozenset({("b", False), 1}))
    assert decided(decisions, "a", "b", "not b", "c") == [True, False, True, False]
    assert decisions.are_open
    assert decisions.others() == [frozenset({0, 1}), frozenset({0}), frozenset({1})]


def test_a_given_decision_holds_until_its_variable_is_bound_again():
    decisions = Decisions(frozenset({("b", False)}))
    decisions.forget("b")
    assert decided(decisions, "b") == [False]
    decisions.forget("b")
    assert decided(decisions, "b") == [True]


@pytest.mark.parametrize(
    ("test", "value", "expected"),
    [
        ("a", True, {"a": True}),
        ("not a", True, {"a": False}),
        ("a is False", False, {"a": True}),
        ("a and not b", True, {"a": True, "b": False}),
        ("a and b", False, {"a": False}),
        ("a or b", True, {"a": True}),
        ("a or b > 1", False, {"a": False, "b > 1": False}),
    ],
)
def test_the_conditions_that_give_a_test_a_value(test, value, expected):
    assert dict(conditions(condition(test), value=value)) == expected


def test_the_path_through_another_method_comes_first():
    decisions = Decisions()
    decided(decisions, "a", "b")
    decisions.decide(condition("c"), by_default=False, turn=Turn.FIRST)
    decisions.decide(condition("d"), by_default=False)
    assert decisions.others()[0] == frozenset({2})
    assert decisions.others()[-1] == frozenset({3})
    assert decisions.others().count(frozenset({2})) == 1


def test_paths_that_leave_early_after_work_come_after_two_others():
    decisions = Decisions()
    decided(decisions, "a", "b", "c")
    decisions.decide(condition("d"), by_default=False, turn=Turn.EARLY)
    decisions.decide(condition("e"), by_default=False)
    assert decisions.others()[2] == frozenset({3})
    assert decisions.others()[-1] == frozenset({4})


def test_a_variable_whose_attribute_was_used_is_not_none():
    decisions = Decisions()
    decisions.note_object(condition("x"))
    assert decisions.is_object(condition("x"))
    assert not decisions.is_object(condition("y"))
    assert not decisions.is_object(condition("x.y"))
    decisions.forget("x")
    assert not decisions.is_object(condition("x"))


def test_a_parameter_of_a_called_function_may_be_none():
    decisions = Decisions()
    decisions.note_object(condition("x"))
    decisions.enter(["x"])
    assert not decisions.is_object(condition("x"))
