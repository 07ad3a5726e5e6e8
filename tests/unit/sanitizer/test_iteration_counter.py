"""Calls that a loop makes on every iteration."""

import pytest

from syncheck.sanitizer.iteration_counter import IterationCounter


@pytest.fixture
def counter():
    return IterationCounter()


def launch(counter, *sites):
    for site in sites:
        counter.launches[site] = counter.launches.get(site, 0) + 1


def loop(counter, iterations, *launched, site=50):
    """Return the counts for a call made on each iteration."""
    counts = []
    for _ in range(iterations):
        launch(counter, *launched)
        counts.append(counter.count(site))
    return counts


def test_consecutive_iterations_are_counted(counter):
    assert loop(counter, 4, 10, 11) == [1, 2, 3, 4]


def test_a_hot_call_stays_hot_and_is_counted_no_further(counter):
    assert loop(counter, 22, 10)[-4:] == [19, 20, 20, 20]
    launch(counter, 10, 10)
    assert counter.count(50) == 20


def test_a_call_is_not_per_iteration_if_everything_else_ran_more_often(counter):
    assert loop(counter, 10, 10, 11, 10, 11) == [0] * 10


def test_an_interruption_restarts_the_count(counter):
    loop(counter, 5, 10)
    assert loop(counter, 2, 10, 10) == [0, 0]
    assert loop(counter, 2, 10) == [1, 2]


def test_a_call_without_a_launch_since_the_last_one_changes_nothing(counter):
    loop(counter, 3, 10)
    assert counter.count(50) == 0
    assert loop(counter, 1, 10) == [4]


def test_the_copy_that_a_read_waits_for_is_not_work_of_an_iteration(counter):
    for _ in range(4):
        launch(counter, 50)
        count = counter.count(50, is_read=True)
    assert count == 0
    launch(counter, 10, 50)
    assert counter.count(50, is_read=True) == 1


@pytest.mark.parametrize(("inner", "count"), [((11, 12, 13), 1), ((11, 12, 13, 14), 0)])
def test_a_quarter_of_the_places_running_once_is_enough_beside_inner_loops(counter, inner, count):
    launch(counter, 10, *inner, *inner)
    assert counter.count(50) == count


def test_places_that_did_not_run_since_are_ignored(counter):
    launch(counter, *range(100))
    counter.count(50)
    launch(counter, 200, 200, 201, 201, 202, 202)
    assert counter.count(50) == 0
    launch(counter, 300)
    assert counter.count(50) == 1


def test_each_call_has_its_own_count(counter):
    loop(counter, 3, 10, site=50)
    assert loop(counter, 1, 10, site=51) == [0]
    assert loop(counter, 1, 10, site=50) == [0]


def test_a_call_made_five_hundred_times_outside_of_loops_is_not_counted(counter):
    loop(counter, 499, 10, 10)
    assert loop(counter, 3, 10) == [1, 0, 0]
