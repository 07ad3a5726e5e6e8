"""The protocol between the interpreter and its parts."""

import inspect

import pytest

from syncheck.lint.interp.evaluator import Evaluator
from tests.unit.lint.program import new_program

METHODS = {name: f for name, f in vars(Evaluator).items() if inspect.isfunction(f) and not name.startswith("_")}


@pytest.mark.parametrize("name", METHODS)
def test_the_interpreter_implements_each_method(name):
    wanted = list(inspect.signature(METHODS[name]).parameters)[1:]
    offered = inspect.signature(getattr(new_program().interpreter, name)).parameters
    assert list(offered)[: len(wanted)] == wanted
    more = list(offered.values())[len(wanted) :]
    assert all(parameter.default is not parameter.empty for parameter in more)


@pytest.mark.parametrize("name", Evaluator.__annotations__)
def test_the_interpreter_has_each_part(name):
    assert getattr(new_program().interpreter, name) is not None
