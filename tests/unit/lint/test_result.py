"""What came of one file."""

from syncheck.lint.result import Result


def test_nothing_was_found_unless_something_is_said():
    assert (Result().findings, Result().unused, Result().problem) == ((), (), "")
    assert Result() == Result((), (), "")
    assert Result(problem="a") != Result()
