"""Jumps out of the current place of a program."""

import pytest

from syncheck.lint.interp.control_flow import BreakSignal, ContinueSignal, Jump, Raised, Returned, TooLongError
from syncheck.lint.interp.values import Constant
from tests.unit.lint.program import calls_of, constant, follow


def test_a_return_carries_its_value():
    value = Constant(3)
    assert Returned(value).value is value


@pytest.mark.parametrize("kind", [BreakSignal, ContinueSignal, Raised, Returned])
def test_jumps_do_not_end_the_analysis(kind):
    assert issubclass(kind, Jump)
    assert not issubclass(TooLongError, Jump)


def test_each_jump_goes_where_it_does_in_python():
    assert constant("n", "n = 0\nfor i in range(5):\n    if i == 2: break\n    n += 1\nelse:\n    n = 99") == 2
    assert constant("n", "n = 0\nfor i in range(5):\n    if i == 2: continue\n    n += 1") == 4
    assert constant("f()", "def f():\n    for i in range(5):\n        return i\n    return 9") == 0
    assert constant("n", "try:\n    raise ValueError\nexcept ValueError:\n    n = 1\nfinally:\n    m = 2") == 1


def test_an_unhandled_error_ends_the_path():
    with pytest.raises(Raised):
        follow("raise ValueError")


def test_the_number_of_steps_is_limited():
    with pytest.raises(TooLongError):
        calls_of("a = 1\nb = 2\nc = 3", steps=2)
