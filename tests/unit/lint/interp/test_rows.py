"""Rows of a tensor that an index or a method selects."""

import ast

import pytest

from syncheck.lint.interp import rows as tested
from syncheck.lint.interp.rows import BEGINNING, is_strided, of_method, selected
from syncheck.lint.interp.values import UNKNOWN, WHOLE, Call, Constant, Sequence


def index_of(*values):
    """Return an index of these parts, as the interpreter represents it."""
    items = [value if value is UNKNOWN else Constant(value) for value in values]
    return items[0] if len(items) == 1 else Sequence(items)


def value_of(node):
    return UNKNOWN if isinstance(node, ast.Name) else Constant(ast.literal_eval(node))


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (index_of(0), (0, 1)), (index_of(slice(1, 3)), (1, 3)), (index_of(slice(2, None)), (2, WHOLE[1])),
        (index_of(slice(None)), WHOLE), (index_of(...), WHOLE), (index_of(None), WHOLE), (index_of(BEGINNING), (0, 1)),
        (index_of(-1), None), (index_of(slice(-1, None)), None), (index_of(slice(0, 4, 2)), None), (UNKNOWN, None),
        (Sequence([index_of(slice(None))]), WHOLE), (Sequence([]), None), (index_of(True), None),
    ],
)  # fmt: skip
def test_rows_are_known_for_numbers_and_slices(index, rows):
    assert selected(index) == rows


@pytest.mark.parametrize(
    "index",
    [
        index_of(slice(None), slice(None, 64)), index_of(slice(None), BEGINNING), index_of(0, BEGINNING),
        index_of(..., 0), index_of(slice(0, 4), 0), index_of(None, 0),
    ],
)  # fmt: skip
def test_columns_from_the_first_on_include_the_first_element(index):
    assert selected(index) == (0, 1)


@pytest.mark.parametrize(
    "index",
    [
        index_of(slice(None), 1), index_of(0, 1), index_of(slice(None), slice(64, None)), index_of(0, UNKNOWN),
        index_of(1, 0),
    ],
)  # fmt: skip
def test_other_columns_are_unknown(index):
    assert selected(index) is None


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("narrow(0, 2, 3)", (2, 5)), ("narrow(0, start=2, length=3)", (2, 5)), ("narrow(0, 0, n)", (0, 1)),
        ("narrow(1, 0, n)", (0, 1)), ("narrow(-1, 0, 4)", (0, 1)), ("narrow(0, n, 3)", None), ("narrow(0, 2, n)", None),
        ("narrow(1, 2, 4)", None), ("select(0, 3)", (3, 4)), ("select(1, 0)", (0, 1)), ("select(1, 2)", None),
        ("select(0, index=n)", None), ("chunk(2, 0)", None),
    ],
)  # fmt: skip
def test_rows_selected_by_methods(call, rows):
    node = ast.parse(call, mode="eval").body
    kwargs = {keyword.arg: value_of(keyword.value) for keyword in node.keywords}
    assert of_method(node.func.id, Call(node, [value_of(part) for part in node.args], kwargs)) == rows


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (index_of(slice(None), slice(None, 64)), True), (index_of(slice(None, None, 2)), True), (index_of(0, 1), False),
        (index_of(slice(None)), False), (index_of(slice(None), slice(None)), False), (index_of(..., 0), False),
        (index_of(slice(1, 2), UNKNOWN), False),
    ],
)  # fmt: skip
def test_noncontiguous_selections_are_strided(index, expected):
    assert is_strided(index) is expected


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "is_given"),
    [
        ("index_select", ["dim", "index"], {}, True),
        ("index_fill_", ["dim", "index", "value"], {}, True),
        ("scatter_", ["dim"], {"index": "index"}, True),
        ("embedding", ["index"], {}, False),
        ("mul_", ["other", "index"], {}, False),
    ],
)
def test_the_index_of_a_method_that_accesses_some_rows(name, args, kwargs, is_given):
    values = {word: Constant(word) for word in (*args, *kwargs.values())}
    call = Call(ast.Pass(), [values[word] for word in args], {key: values[word] for key, word in kwargs.items()})
    assert tested.index_of(name, call) is (values["index"] if is_given else None)
