"""The number of statements that are interpreted in one file."""

import sys

import pytest

from syncheck.lint.budget import TOO_DEEP, TOO_MUCH, Budget, nesting


def test_a_budget_ends_when_its_statements_are_used():
    budget = Budget(10)
    budget.use(9)
    assert (budget.is_left(), budget.left_out) == (True, "")
    budget.use(1)
    assert (budget.is_left(), budget.left_out) == (False, TOO_MUCH)


def test_a_budget_that_was_exceeded_stays_so_in_another_pass():
    budget = Budget(10)
    budget.use(10)
    budget.is_left()
    budget.restart()
    assert (budget.is_left(), budget.left_out) == (True, TOO_MUCH)


def interpreted(budget, cost, n_paths=12):
    """Return how many of some paths are interpreted at a cost each."""
    done = 0
    for _ in budget.affordable(range(n_paths)):
        budget.use(cost)
        done += 1
    return done


@pytest.mark.parametrize(("cost", "n_paths"), [(100, 12), (2_000, 3), (100_000, 1)])
def test_fewer_paths_are_interpreted_the_more_they_cost(cost, n_paths):
    assert interpreted(Budget(1_000_000), cost) == n_paths


def test_further_paths_leave_half_of_the_budget_to_code_not_reached_so_far():
    budget = Budget(1_000)
    budget.use(450)
    assert interpreted(budget, 25) == 2
    assert interpreted(budget, 25) == 0
    assert (budget.is_left(), budget.left_out) == (True, "")


def test_too_deep_code_is_noted_unless_there_is_too_much_code():
    budget = Budget(1)
    budget.too_deep()
    assert budget.left_out == TOO_DEEP
    budget.use(1)
    budget.is_left()
    budget.too_deep()
    assert budget.left_out == TOO_MUCH


def deepest(n=0):
    """Return how many calls can be nested from here on."""
    try:
        return deepest(n + 1)
    except RecursionError:
        return n


def nested(levels, call):
    """Call a function below some other calls."""
    return nested(levels - 1, call) if levels else call()


def reached():
    with nesting():
        return deepest()


def test_every_caller_may_nest_calls_equally_deeply():
    before = sys.getrecursionlimit()
    high, low = reached(), nested(500, reached)
    assert sys.getrecursionlimit() == before
    assert high > 2_500
    assert abs(high - low) < 10
