"""Result of linting one file."""

from syncheck.lint.result import Result


def test_a_default_result_is_empty():
    assert (Result().findings, Result().unused, Result().problem) == ((), (), "")
    assert Result() == Result((), (), "")
    assert Result(problem="a") != Result()
