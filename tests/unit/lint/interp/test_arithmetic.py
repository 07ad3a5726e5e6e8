"""Arithmetic on known values."""

import ast

import pytest

from syncheck.lint.interp.arithmetic import compared, computed, is_same, operator_name, repeated, subscript
from syncheck.lint.interp.values import NONE, UNKNOWN, Attribute, Constant, Sequence, Stream, Symbol
from tests.unit.lint.program import constant


@pytest.mark.parametrize(
    ("kind", "left", "right", "result"),
    [
        (ast.Add, 2, 3, 5), (ast.Sub, 2, 3, -1), (ast.Mult, 2, 3, 6), (ast.FloorDiv, 7, 2, 3), (ast.Mod, 7, 2, 1),
        (ast.Div, 1, 2, 0.5), (ast.Add, "a", "b", "ab"),
    ],
)  # fmt: skip
def test_numbers_and_strings_are_computed(kind, left, right, result):
    assert computed(kind(), left, right).value == result


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        (ast.Div, 1, 0), (ast.Add, 1, "a"), (ast.Pow, 2, 3), (ast.Mult, "a", 1000), (ast.Mod, "%s", 1),
        (ast.Mult, 1 << 50, 1 << 50), (ast.Add, None, 1),
    ],
)  # fmt: skip
def test_operations_that_raise_or_grow_without_bound_are_unknown(kind, left, right):
    assert computed(kind(), left, right) is UNKNOWN


@pytest.mark.parametrize(
    ("kind", "left", "right", "result"),
    [(ast.Eq, 1, 1, True), (ast.NotEq, 1, 1, False), (ast.Lt, 1, 2, True), (ast.LtE, 2, 2, True), (ast.Gt, 1, 2, False),
     (ast.GtE, 1, 2, False)],
)  # fmt: skip
def test_constants_are_compared(kind, left, right, result):
    assert compared(kind(), left, right).value is result


def test_incomparable_values_are_unknown():
    assert compared(ast.Lt(), 1, "a") is UNKNOWN
    assert compared(ast.In(), 1, 2) is UNKNOWN


def test_lists_are_repeated_up_to_a_length():
    made = repeated(Sequence([NONE, UNKNOWN], is_open=True), Constant(2))
    assert (made.items, made.is_open) == ([NONE, UNKNOWN] * 2, True)
    assert len(repeated(Sequence([NONE] * 3), Constant(10**9)).items) <= 64
    assert repeated(Sequence([NONE]), Constant(-1)).items == []
    assert repeated(Sequence([NONE]), UNKNOWN) is UNKNOWN
    assert repeated(Constant(2), Constant(2)) is UNKNOWN


def test_identity_is_known_for_constants_and_for_the_same_value():
    stream = Stream(1, 0)
    assert is_same(Constant(None), Constant(None)) is True
    assert is_same(Constant(1), Constant(None)) is False
    assert is_same(stream, stream) is True
    assert is_same(stream, Constant(None)) is False
    assert is_same(Constant(None), stream) is False


@pytest.mark.parametrize("other", [UNKNOWN, Symbol("a.b"), Attribute(UNKNOWN, "a")])
def test_an_unknown_value_may_be_none(other):
    assert is_same(other, Constant(None)) is None
    assert is_same(Stream(1, 0), other) is None


def test_items_of_lists():
    owner = Sequence([Constant(number) for number in range(3)])
    assert [subscript(owner, index).value for index in (0, -1)] == [0, 2]
    assert [item.value for item in subscript(owner, slice(1, None)).items] == [1, 2]
    assert subscript(owner, 3) is UNKNOWN
    assert subscript(owner, "a") is UNKNOWN


def test_a_slice_with_an_unknown_bound_may_select_any_item():
    found = subscript(Sequence([Constant(0), Constant(1)]), slice("a", None))
    assert isinstance(found, Sequence)
    assert ([item.value for item in found.items], found.is_open) == ([0, 1], True)


def test_the_end_of_an_open_list_is_unknown():
    owner = Sequence([Constant(0), Constant(1)], is_open=True)
    assert subscript(owner, -1) is UNKNOWN
    assert subscript(owner, 1).value == 1
    assert subscript(owner, slice(None)).is_open


@pytest.mark.parametrize("text", "+ - * / // % ** @ & | ^ << >> == != < <= > >= -x +x ~x".split())
def test_operators_have_the_names_of_torch(text):
    torch = pytest.importorskip("torch")
    node = ast.parse(text if text.endswith("x") else f"x {text} x", mode="eval").body
    kind = node.ops[0] if isinstance(node, ast.Compare) else node.op
    assert hasattr(torch.ops.aten, operator_name(kind))


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("i >= 3", [False, False, "unknown"]),
        ("i > 2", [False, False, "unknown"]),
        ("2 < i", [False, False, "unknown"]),
        ("i < 3", [True, True, "unknown"]),
        ("i >= 2", [False, False, True]),
        ("i < 2", [True, True, False]),
        ("i <= 100", [True, True, "unknown"]),
        ("i == 100", [False, False, False]),  # it is equal to it only once
        ("i != 100", [True, True, True]),
        ("i % 2 < 2", [True, True, True]),
        ("i + 1 > 3", [False, "unknown", "unknown"]),
    ],
)
def test_an_order_that_a_later_iteration_changes_is_unknown_in_the_latest(condition, values):
    source = f"found = []\nfor i in range(200):\n    found.append({condition})"
    assert constant("found", source) == values
