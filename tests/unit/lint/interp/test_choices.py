"""Clues in the wording of an expression."""

import ast

import pytest

from syncheck.lint.interp.arithmetic import Growing
from syncheck.lint.interp.choices import creates_fallback, has_element, is_made, n_made
from syncheck.lint.interp.values import UNKNOWN, Constant, Sequence, Stream
from tests.unit.lint.program import constant


def expression(text):
    return ast.parse(text, mode="eval").body


def test_values_created_by_the_function_are_recognized():
    assert is_made(Stream(1, 0))
    assert not is_made(UNKNOWN)
    assert not is_made(Constant(3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s if s is not None else torch.cuda.Stream()", True),
        ("x.cpu() if small else x.to('cpu', non_blocking=True)", True),
        ("torch.cuda.Stream() if cuda else None", False),
        ("make() if cuda else torch.cuda.Stream()", False),
        ("x.to('cpu', non_blocking=True) if a else x.to('cpu', non_blocking=True)", False),
    ],
)
def test_the_else_case_is_preferred_if_only_it_starts_something(text, expected):
    assert creates_fallback(expression(text)) is expected


def test_a_stream_is_created_where_none_is_given():
    assert constant("unknown or torch.cuda.Stream()") == "stream"
    assert constant("s if s is not None else torch.cuda.Stream()") == "stream"


def test_an_element_in_a_bound_is_detected():
    assert has_element(expression("a[0] + 1"))
    assert not has_element(expression("n + 1"))
    assert not has_element(None)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (UNKNOWN, 3),
        (Sequence([Constant(Growing(n)) for n in range(4)], is_open=True), 3),
        (Sequence([Constant(n) for n in range(4)]), 8),
        (Sequence([Constant("a")], is_open=True), 8),
        (Sequence([], is_open=True), 8),
    ],
)
def test_a_comprehension_over_an_unknown_length_makes_fewer_items_than_a_loop_uses(source, expected):
    assert n_made(source) == expected
