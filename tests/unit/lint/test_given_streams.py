"""Streams that a function or a constructor is given."""

import ast

import pytest

from syncheck.lint.given_streams import may_be_given_streams, streams_given

FUNCTION = """
def f(x, {parameter}):
    with torch.cuda.stream({entered}):
        y = x * 2
    {order}
"""
ORDER = "torch.cuda.current_stream().wait_stream(side)"
OWNER = """
class A:
    def __init__(self, x, {parameter}):
        self.side = {value}
    def f(self, x):
        with torch.cuda.stream(self.side):
            y = x * 2
        y.record_stream(self.side)
"""


def given(parameter, entered="side", order=ORDER):
    (function,) = ast.parse(FUNCTION.format(parameter=parameter, entered=entered, order=order)).body
    return [(argument.arg, name) for argument, name in streams_given(function)]


def kept(parameter, value="side"):
    (kind,) = ast.parse(OWNER.format(parameter=parameter, value=value)).body
    return [(argument.arg, name) for argument, name in streams_given(kind.body[0], kind)]


@pytest.mark.parametrize(
    "parameter",
    [
        "side", "side=None", "side: torch.cuda.Stream", "side: Stream", "side: 'torch.cuda.Stream'",
        "side: Optional[torch.cuda.Stream] = None", "side: torch.cuda.Stream | None = None",
        "side: 'torch.cuda.Stream | None' = None", "side: 'Optional[torch.cuda.Stream]' = None", "*, side: Stream",
    ],
)  # fmt: skip
def test_a_parameter_is_a_stream_by_its_annotation_or_because_it_is_entered(parameter):
    assert given(parameter) == [("side", "side")]


@pytest.mark.parametrize(
    "parameter", ["side: int", "side: 'Tensor'", "side: Stream | int", "side: 'list[torch.cuda.Stream]'", "*side"]
)
def test_other_parameters_are_no_streams(parameter):
    assert given(parameter) == []


def test_a_parameter_that_is_not_entered_is_a_stream_only_if_it_is_annotated():
    assert given("side", entered="other") == []
    assert given("side: Stream", entered="other") == [("side", "side")]


@pytest.mark.parametrize("order", ["pass", "side.synchronize()"])
def test_without_another_stream_it_may_be_the_current_one(order):
    assert given("side", order=order) == []


def test_a_function_that_enters_no_stream_gets_none():
    (function,) = ast.parse("def f(x, side: Stream):\n    side.wait_stream(x)").body
    assert list(streams_given(function)) == []


@pytest.mark.parametrize("value", ["side", "side or torch.cuda.Stream()", "side if side is not None else new()"])
def test_a_constructor_keeps_a_stream_that_other_methods_enter(value):
    assert kept("side", value) == [("side", "self.side")]
    assert kept("side: Stream", value) == [("side", "self.side")]


def test_a_constructor_that_keeps_something_else_gets_no_stream():
    assert kept("side", "torch.cuda.Stream()") == []


def test_a_function_or_the_constructor_of_its_class_may_get_streams():
    (kind,) = ast.parse(OWNER.format(parameter="side", value="side")).body
    assert may_be_given_streams(kind.body[1], kind)
    assert not may_be_given_streams(kind.body[1], None)
    assert not may_be_given_streams(None, None)
