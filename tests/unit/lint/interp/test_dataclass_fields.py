"""Fields of dataclass instances."""

import ast

import pytest

from syncheck.lint.interp import dataclass_fields
from syncheck.lint.interp.values import Class
from tests.unit.lint.program import constant

PREFIX = "from dataclasses import dataclass, field\nfrom typing import ClassVar\n"


@pytest.mark.parametrize(
    ("decorator", "expected"), [("@dataclass", True), ("@dataclasses.dataclass(frozen=True)", True), ("@other", False)]
)
def test_the_decorator_makes_a_dataclass(decorator, expected):
    (node,) = ast.parse(f"{decorator}\nclass Slot:\n    size: int = 1\n").body
    assert isinstance(node, ast.ClassDef)
    kind = Class.__new__(Class)
    kind.node, kind.bases = node, []
    assert dataclass_fields.is_dataclass(kind) is expected


@pytest.mark.parametrize(
    ("body", "call", "value"),
    [
        ("size: int = 4", "Slot()", 4),
        ("size: int = 4", "Slot(5)", 5),
        ("size: int = 4", "Slot(size=6)", 6),
        ("other: int\n    size: int = 4", "Slot(1, 7)", 7),
        ("size: int = field(default=8)", "Slot()", 8),
        ("size: int = field(default_factory=lambda: 9)", "Slot()", 9),
        ("limit: ClassVar[int] = 3\n    size: int = 4", "Slot(5)", 5),
        ("hidden: int = field(init=False)\n    size: int = 4", "Slot(5)", 5),
        ("size: int = 4\n    def __post_init__(self):\n        self.size = 10", "Slot()", 10),
    ],
)
def test_fields_have_their_arguments_defaults_and_factory_values(body, call, value):
    assert constant(f"{call}.size", f"{PREFIX}@dataclass\nclass Slot:\n    {body}\n") == value


def test_fields_of_a_base_come_first():
    classes = "@dataclass\nclass A:\n    first: int = 1\n@dataclass\nclass B(A):\n    size: int = 2\n"
    assert constant("B(5, 6).size", PREFIX + classes) == 6
    assert constant("B(5, 6).first", PREFIX + classes) == 5
