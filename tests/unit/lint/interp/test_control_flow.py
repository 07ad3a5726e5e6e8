"""How a program leaves the place where it is."""

import pytest

from syncheck.lint.interp.control_flow import BreakSignal, ContinueSignal, Jump, Raised, Returned, TooLongError
from syncheck.lint.interp.values import Constant
from tests.unit.lint.program import calls_of, constant, follow


def test_a_return_carries_its_value():
    value = Constant(3)
    assert Returned(value).value is value


@pytest.mark.parametrize("kind", [BreakSignal, ContinueSignal, Raised, Returned])
def test_jumps_are_not_the_end_of_what_is_followed(kind):
    assert issubclass(kind, Jump)
    assert not issubclass(TooLongError, Jump)


def test_each_jump_goes_where_pythons_does():
    assert constant("n", "n = 0\nfor i in range(5):\n    if i == 2: break\n    n += 1\nelse:\n    n = 99") == 2
    assert constant("n", "n = 0\nfor i in range(5):\n    if i == 2: continue\n    n += 1") == 4
    assert constant("f()", "def f():\n    for i in range(5):\n        return i\n    return 9") == 0
    assert constant("n", "try:\n    raise ValueError\nexcept ValueError:\n    n = 1\nfinally:\n    m = 2") == 1


def test_an_error_that_nothing_handles_ends_the_path():
    with pytest.raises(Raised):
        follow("raise ValueError")


def test_too_much_is_not_followed():
    with pytest.raises(TooLongError):
        calls_of("a = 1\nb = 2\nc = 3", steps=2)
