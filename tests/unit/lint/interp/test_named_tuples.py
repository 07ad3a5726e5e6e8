"""Instances of named tuples."""

import pytest

from syncheck.lint.interp.named_tuples import items_of_tuple
from syncheck.lint.interp.values import Constant
from tests.unit.lint.program import constant, follow

PAIR = "import typing\nclass Pair(typing.NamedTuple):\n    left: int\n    right: int = 5\np = Pair(4)\n"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("p.left", 4), ("p.right", 5), ("p[0]", 4), ("p[-1]", 5), ("[x for x in p][1]", 5), ("list(p)[0]", 4)],
)
def test_fields_have_names_and_positions(expression, expected):
    assert constant(expression, PAIR) == expected


def test_fields_can_be_unpacked():
    assert constant("r", PAIR + "a, r = p") == 5


def test_only_named_tuples_are_sequences_of_their_fields():
    program = follow(PAIR + "class Other:\n    left: int = 3\nother = Other()")
    assert [item.value for item in items_of_tuple(program.scope.names["p"]).items] == [4, 5]
    other = program.scope.names["other"]
    assert items_of_tuple(other) is other
    assert isinstance(items_of_tuple(Constant(1)), Constant)
