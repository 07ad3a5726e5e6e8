"""Whether a file does more than define names."""

import ast

import pytest

from syncheck.lint.scripts import does_more_than_define


@pytest.mark.parametrize(
    ("source", "is_script"),
    [
        ("import torch\ndef f(): pass\nclass A: pass", False), ('"""A module."""', False), ("run()", True),
        ("for x in y: pass", True), ("with a: pass", True), ("if ready(): x = 1", True), ("if T:\n  import m", False),
        ("try:\n  import m\nexcept ImportError:\n  m = None", False), ("try:\n  f()\nfinally:\n  x = 1", True),
        ("x = 1", False), ("stream = 1", True), ("def stream(): pass", False),
    ],
)  # fmt: skip
def test_a_script_has_effects(source, is_script):
    found = does_more_than_define(ast.parse(source).body, lambda statement: "stream" in ast.unparse(statement))
    assert found is is_script
