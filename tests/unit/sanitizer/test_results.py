"""What calls return, as far as their line shows it."""

import ast

import pytest

from syncheck.findings import Frame
from syncheck.sanitizer.monitor import SourceLine
from syncheck.sanitizer.results import is_new_tensor, may_return_none
from syncheck.source.scopes import scopes_of


def line_and_call(source, call):
    first = source.index(call) + 1
    frame = Frame("program.py", 1, first, 1, first + len(call), source=source)
    return SourceLine("program.py", 1, first, "<module>", scopes_of(source)), frame


@pytest.mark.parametrize(
    ("source", "call", "expected"),
    [
        ("x = torch.zeros(4)", "torch.zeros(4)", True),
        ("x = randn(4)", "randn(4)", True),
        ("x = a @ b", "a @ b", True),
        ("x = y.clone()", "y.clone()", True),
        ("x = torch.ones(4) * 2", "torch.ones(4)", False),
        ("x = torch.sort(y)", "torch.sort(y)", False),
        ("x = batch.to(device)", "batch.to(device)", False),
        ("x = [torch.zeros(4)]", "torch.zeros(4)", False),
        ("torch.zeros(4)", "torch.zeros(4)", True),
    ],
)
def test_only_one_whole_tensor_is_a_new_tensor(source, call, expected):
    assert is_new_tensor(*line_and_call(source, call)) is expected


def test_an_unreadable_line_has_no_new_tensor():
    line, call = line_and_call("x = torch.zeros(4)", "torch.zeros(4)")
    assert not is_new_tensor(line._replace(scopes=None), call)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("x", False), ("x, async_op=True", False), ("x, async_op=flag", True), ("x, async_op=not last", True)],
)
def test_a_collective_whose_argument_decides_may_return_none(arguments, expected):
    source = f"work = dist.all_reduce({arguments})"
    line, _ = line_and_call(source, f"dist.all_reduce({arguments})")
    assert isinstance(line.statement, ast.Assign)
    assert may_return_none(line) is expected
