"""What the text of an expression says."""

import ast

import pytest

from syncheck.source.expressions import has_index, items_in, kind_of_display, names_in, normal


@pytest.mark.parametrize(("text", "names"), [("a.b[c]", {"a", "c"}), ("f(x)", {"f", "x"}), ("a b", {""})])
def test_names_of_an_expression(text, names):
    assert names_in(text) == names


@pytest.mark.parametrize(("text", "has"), [("a[0]", True), ("a[i]", False), ("a['k']", False), ("a[...]", True)])
def test_an_item_picked_by_a_number(text, has):
    assert has_index(text) is has


def test_an_expression_in_the_form_of_the_parser():
    assert normal('a["k"] ') == "a['k']"
    assert normal("a b") == ""


def test_the_items_that_an_expression_picks():
    assert [ast.unparse(item) for item in items_in("a[0].b[i]")] == ["a[0].b[i]", "a[0]"]
    assert items_in("a b") == []


@pytest.mark.parametrize(
    ("text", "kind"), [("{}", "dict"), ("[x for x in y]", "list"), ("set()", "list"), ("f()", ""), ("[0] * 3", "list")]
)
def test_what_a_display_makes(text, kind):
    assert kind_of_display(ast.parse(text, mode="eval").body) == kind
