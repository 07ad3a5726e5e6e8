"""Types of objects."""

import ast

import pytest

from syncheck.lint.nodes import methods_of
from syncheck.lint.patterns.object_types import types_of

KIND = """
class A:
    field: Field
    def __init__(self, given: "Given | None", other):
        self.given = given
        self.other = other
        self.made = pkg.Made(3)
    def run(self, x: X, y: Optional[Y]):
        local = Local()
        one, other = One(), make()
"""


@pytest.mark.parametrize(
    ("owner", "types"),
    [
        ("self.field", ["Field"]),
        ("self.given", ["Given"]),
        ("self.other", []),
        ("self.made", ["Made"]),
        ("x", ["X"]),
        ("y", ["Y"]),
        ("local", ["Local"]),
        ("one", ["One"]),
        ("unknown", []),
        ("x.part", []),
    ],
)
def test_annotations_and_constructors_give_the_type(owner, types):
    (kind,) = ast.parse(KIND).body
    assert types_of(ast.parse(owner, mode="eval").body, methods_of(kind)["run"], kind) == types


def test_an_attribute_outside_of_a_class_is_unknown():
    (function,) = ast.parse("def f(self): return self.x").body
    assert types_of(ast.parse("self.x", mode="eval").body, function, None) == []
