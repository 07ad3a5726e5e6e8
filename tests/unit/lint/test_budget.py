"""The number of statements that are interpreted in one file."""

import pytest

from syncheck.lint.budget import Budget


def test_a_budget_ends_when_its_statements_are_used():
    budget = Budget(10)
    budget.use(9)
    assert (budget.is_left(), budget.is_exceeded) == (True, False)
    budget.use(1)
    assert (budget.is_left(), budget.is_exceeded) == (False, True)


def test_a_budget_that_was_exceeded_stays_so_in_another_pass():
    budget = Budget(10)
    budget.use(10)
    budget.is_left()
    budget.restart()
    assert (budget.is_left(), budget.is_exceeded) == (True, True)


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
    assert (budget.is_left(), budget.is_exceeded) == (True, False)
