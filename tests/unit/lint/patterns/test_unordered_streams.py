"""Streams of a function or a class that no code in the file makes wait."""

import ast

import pytest

from syncheck.lint.nodes import functions_in
from syncheck.lint.patterns.unordered_streams import (
    blocks_of,
    streams_of_object,
    unordered_attributes,
    unordered_locals,
)

LOCAL = "def f(x, t):\n    s = torch.cuda.Stream()\n    {use}\n"
CLASS = """
class A:
    def __init__(self):
        self.s = {made}
    {decorator}
    def run(self, x):
        {use}
"""


def in_function(use):
    tree = ast.parse(LOCAL.format(use=use))
    return list(unordered_locals(list(ast.walk(tree))))


def in_class(use, made="torch.cuda.Stream()"):
    source = CLASS.format(use=use, made=made, decorator="")
    return unordered_attributes(ast.parse(source), source)


HARMLESS = [
    "with torch.cuda.stream({s}): x.sin_()",
    "torch.cuda.current_stream().wait_stream({s})",
    "t.record_stream({s})",
    "{s}.synchronize()",
    "print({s}.cuda_stream)",
    "x = {s} is None",
]
ORDERING = [
    "{s}.wait_stream(torch.cuda.current_stream())",
    "{s}.wait_event(t)",
    "order({s})",
    "x = {s}",
    "return {s}",
    "x = [{s}]",
]


@pytest.mark.parametrize("use", HARMLESS)
def test_uses_after_which_a_stream_has_not_waited(use):
    assert in_function(use.format(s="s")) == ["s"]
    assert in_class(use.format(s="self.s")) == {"s"}


@pytest.mark.parametrize("use", ORDERING)
def test_uses_that_may_make_a_stream_wait(use):
    assert in_function(use.format(s="s")) == []
    assert in_class(use.format(s="self.s")) == set()


@pytest.mark.parametrize(
    "use",
    [
        "for s in self.s: s.synchronize()",
        "with torch.cuda.stream(self.s[0]): x.sin_()",
        "x = len(self.s)",
        "torch.cuda.current_stream().wait_stream(self.s[i])",
    ],
)
def test_a_list_of_streams_that_never_wait(use):
    assert in_class(use, "[torch.cuda.Stream() for _ in range(4)]") == {"s"}


@pytest.mark.parametrize("use", ["for s in self.s: s.wait_event(x)", "self.s[0].wait_event(x)", "x = self.s[0]"])
def test_a_list_of_streams_that_may_wait(use):
    assert in_class(use, "[torch.cuda.Stream() for _ in range(4)]") == set()


def test_a_stream_that_is_named_in_a_text_may_wait():
    assert in_class("getattr(self, 's')") == set()


@pytest.mark.parametrize(("decorator", "is_own"), [("", True), ("@torch.no_grad()", True), ("@ordered", False)])
def test_a_decorator_of_other_code_may_order_the_streams_of_an_object(decorator, is_own):
    tree = ast.parse(CLASS.format(use="pass", made="torch.cuda.Stream()", decorator=decorator))
    run = next(function for function in functions_in(tree) if function.name == "run")
    assert list(streams_of_object(run, {"s"}, tree)) == (["self.s"] if is_own else [])


def test_a_method_that_runs_on_the_stream_needs_no_wait():
    use = "with torch.cuda.stream(self.s): self.run(x)"
    tree = ast.parse(CLASS.format(use=use, made="torch.cuda.Stream()", decorator=""))
    run = next(function for function in functions_in(tree) if function.name == "run")
    assert list(streams_of_object(run, {"s"}, tree)) == []


def test_blocks_on_a_stream_or_on_one_of_a_list():
    tree = ast.parse("with torch.cuda.stream(self.s[0]): pass\nwith torch.cuda.stream(self.s): pass\nwith x: pass\n")
    assert [block.lineno for block in blocks_of("self.s", list(ast.walk(tree)))] == [1, 2]
