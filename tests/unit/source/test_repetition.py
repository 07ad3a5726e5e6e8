"""Code that may run again."""

import ast

import pytest

from syncheck.source.repetition import may_run_again

TEXT = """event = make()
for i in n:
    wait()
    record()
def f():
    wait()
    record()
"""


@pytest.mark.parametrize(
    ("inside", "outside", "expected"),
    [((3, 4), 1, True), ((6, 7), 1, True), ((6, 7), 0, True), ((3, 6), 1, False), ((3, 4), 2, False), ((1,), 3, False)],
)
def test_a_loop_or_function_runs_again_after_what_is_outside(inside, outside, expected):
    assert may_run_again(ast.parse(TEXT), inside, outside) is expected
