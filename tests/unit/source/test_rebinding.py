"""Names that are bound again."""

import ast

import pytest

from syncheck.source.rebinding import is_bound_between, is_bound_in_loop, is_loop_variable_outside, reads

SOURCE = """
last = None
for item in items:
    last = item
if flag:
    last = 1
else:
    last = 2
use(last)
"""
BODY = ast.parse(SOURCE).body
STATEMENTS = [node for node in ast.walk(ast.Module(BODY, [])) if isinstance(node, ast.stmt)]


def test_a_name_may_be_bound_in_a_loop():
    assert is_bound_in_loop([2, 4], STATEMENTS)
    assert not is_bound_in_loop([2, 6], STATEMENTS)


def test_a_loop_variable_is_left_over_after_its_loop():
    assert is_loop_variable_outside("item", [3], STATEMENTS, 9)
    assert not is_loop_variable_outside("item", [3], STATEMENTS, 4)
    assert not is_loop_variable_outside("item", [2, 3], STATEMENTS, 9)


@pytest.mark.parametrize(
    ("first", "other", "lines", "is_bound"),
    [
        (1, 9, [2], True),
        (2, 9, [6], True),
        (2, 9, [4], True),
        (1, 2, [2], False),
        (6, 9, [8], False),
        (2, 9, [2], False),
    ],
)
def test_what_may_run_in_between_counts_but_not_another_branch(first, other, lines, is_bound):
    assert is_bound_between(range(first + 1, other), lines, STATEMENTS) is is_bound


def test_a_function_reads_a_name():
    function = ast.parse("def f():\n    a = b\n").body[0]
    assert reads("b", function)
    assert not reads("a", function)
