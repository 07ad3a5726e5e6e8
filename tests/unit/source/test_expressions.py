"""Properties of an expression's text."""

import ast

import pytest

from syncheck.source.expressions import (
    argument_of_call,
    arguments_of,
    container_kind,
    expressions_of,
    has_index,
    names_in,
    normalized,
    object_of_call,
    subscripts_in,
)


@pytest.mark.parametrize(("text", "names"), [("a.b[c]", {"a", "c"}), ("f(x)", {"f", "x"}), ("a b", {""})])
def test_names_of_an_expression(text, names):
    assert names_in(text) == names


@pytest.mark.parametrize(("text", "has"), [("a[0]", True), ("a[i]", False), ("a['k']", False), ("a[...]", True)])
def test_an_item_selected_by_a_number(text, has):
    assert has_index(text) is has


def test_arguments_of_a_call_with_those_of_keywords_last():
    call = ast.parse("f(a, *b, c=d, **e)", mode="eval").body
    assert [ast.unparse(value) for value in arguments_of(call)] == ["a", "*b", "d", "e"]


def test_an_expression_is_normalized_by_the_parser():
    assert normalized('a["k"] ') == "a['k']"
    assert normalized("a b") == ""


def test_subscripts_of_an_expression():
    assert [ast.unparse(item) for item in subscripts_in("a[0].b[i]")] == ["a[0].b[i]", "a[0]"]
    assert subscripts_in("a b") == []


@pytest.mark.parametrize(
    ("text", "kind"), [("{}", "dict"), ("[x for x in y]", "list"), ("set()", "list"), ("f()", ""), ("[0] * 3", "list")]
)
def test_the_kind_of_a_display(text, kind):
    assert container_kind(ast.parse(text, mode="eval").body) == kind


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x.record_stream(s)", "x"),
        ("self.held[i].record_stream(s)", "self.held[i]"),
        ("f().record_stream(s)", ""),
        ("x.wait_stream(s)", ""),
        ("record_stream(s)", ""),
    ],
)
def test_the_object_of_a_method_call(text, name):
    assert object_of_call(ast.parse(text).body[0], "record_stream", 1, 1) == name
    assert object_of_call(ast.parse(text).body[0], "record_stream", 1, 2) == ""
    assert object_of_call(None, "record_stream", 1, 1) == ""


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("x.record_stream(torch.cuda.current_stream())", "torch.cuda.current_stream()"),
        ("x.record_stream(stream=self.main)", "self.main"),
        ("x.record_stream(*streams)", ""),
        ("x.record_stream(a, b)", ""),
        ("x.other(a)", ""),
        ("record_stream(a)", ""),
    ],
)
def test_the_argument_of_a_method_call(text, argument):
    assert argument_of_call(ast.parse(text).body[0], "record_stream", 1, 1) == argument
    assert argument_of_call(ast.parse(text).body[0], "record_stream", 1, 2) == ""


def test_the_expressions_of_a_statement_are_not_those_of_the_statements_inside_it():
    statement = ast.parse("while a > 1:\n    b = 2").body[0]
    assert sorted(map(ast.unparse, expressions_of(statement))) == ["1", "a", "a > 1"]
    assert list(expressions_of(None)) == []
