"""Arguments of calls that may be devices or types."""

import ast

import pytest

from syncheck.lint.interp.type_arguments import first_argument, is_host_type, is_type, is_type_of_tensor, names_type
from syncheck.lint.interp.values import UNKNOWN, Constant, Symbol


def call(source):
    return ast.parse(source, mode="eval").body


@pytest.mark.parametrize(
    ("source", "expected"), [("x.to(a, b)", "a"), ("x.to(a, device=d)", "d"), ("x.to()", None), ("x", None)]
)
def test_the_device_of_a_call_or_its_first_argument(source, expected):
    found = first_argument(call(source))
    assert (found and ast.unparse(found)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [("x.to(DTYPES[name])", True), ("x.to(self.dtype)", True), ("x.to(device_and_dtype)", False), ("x.to(y)", False)],
)
def test_an_argument_that_names_a_type(source, expected):
    assert names_type(call(source)) is expected


def test_types_of_torch():
    assert is_type(Symbol("torch.half"))
    assert is_type(Constant("float"))
    assert not is_type(Symbol("numpy.half"))
    assert not is_type(UNKNOWN)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Symbol("torch.FloatTensor"), True),
        (Constant("torch.LongTensor"), True),
        (Symbol("torch.cuda.FloatTensor"), False),
        (Constant(3), False),
        (None, False),
    ],
)
def test_types_of_host_tensors(value, expected):
    assert is_host_type(value) is expected


@pytest.mark.parametrize(("source", "expected"), [("y.type()", True), ("y.type(t)", False), ("y.dtype", False)])
def test_the_type_of_a_tensor(source, expected):
    assert is_type_of_tensor(call(source)) is expected
