"""Calls in a file, and their arguments."""

import ast

import pytest

from syncheck.lint.file_calls import (
    argument_of,
    calls_by_name,
    copies_values,
    protecting_functions,
    recording_functions,
)


def test_calls_are_found_by_the_last_name_of_what_they_call():
    calls = calls_by_name(ast.parse("f(1)\nclass A:\n    def g(self):\n        self.f(2)\n        (lambda: 0)()"))
    assert [ast.unparse(call) for call in calls["f"]] == ["f(1)", "self.f(2)"]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ("f(1, 2)", "2"), ("f(1, x=3)", "3"), ("f(1)", None), ("f(*a)", None), ("f(1, 2, **a)", None),
        ("f(1, y=3)", None),
    ],
)  # fmt: skip
def test_an_argument_is_passed_by_name_or_position(call, argument):
    found = argument_of(ast.parse(call, mode="eval").body, "x", 1)
    assert (None if found is None else ast.unparse(found)) == argument


def test_an_index_may_be_unknown():
    call = ast.parse("f(1, 2)", mode="eval").body
    assert argument_of(call, "x", None) is None
    assert argument_of(call, "x", -1) is None


SOURCE = """
def mark(s):
    event.record(s)
class A:
    def end(self):
        return s.record_event()
    def keep(self, x, s):
        x.record_stream(s)
    def hand_over(self, x, s):
        x.record_stream(s)
        s.wait_stream(other)
def f(): pass
"""


def test_functions_that_record_events_or_only_tensors_are_found():
    assert recording_functions(ast.parse(SOURCE)) == {"mark", "end"}
    assert protecting_functions(ast.parse(SOURCE)) == {"keep"}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.tensor([1, 2], device=device)", True), ("torch.tensor([n for n in k], device='cuda')", True),
        ("torch.tensor([1, 2])", False), ("torch.tensor([1], device='cpu')", False),
        ("torch.tensor(x, device=d)", False), ("torch.full([1], 2, device=device)", False),
        ("torch.tensor(device=device)", False),
    ],
)  # fmt: skip
def test_values_of_python_are_copied_from_pageable_memory(call, expected):
    assert copies_values(ast.parse(call, mode="eval").body) is expected
