"""Code between two calls, `first()` and `last()`, if a single path connects them."""

import ast
import textwrap

import pytest

from syncheck.source.straight_line import NotStraightLineError, between


def names_between(source, start="first", end="last", **kwargs):
    """Return the names called or read in between, without the two calls."""
    tree = ast.parse(textwrap.dedent(source))
    at = {
        node.func.id: (node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    nodes = between(tree.body, at.get(start), at.get(end), **kwargs)
    found = {inner.id for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return found - {"first", "last", "range"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a; first(); b; c = d; last(); e", {"b", "c", "d"}),
        ("x = first(a)\ny = last(b)", {"a", "b", "x", "y"}),
        ("print(first(a), last(b))", {"a", "b", "print"}),
        ("first()\nwith a:\n    b\n    last()\n    c", {"a", "b"}),
        ("with a:\n    first()\n    b\nc\nlast()", {"b", "c"}),
        ("with first():\n    a\n    last()\n    b", {"a"}),
        ("if a:\n    first()\n    b\nc\nlast()", {"b", "c"}),
        ("first()\nfor i in range(a):\n    b\nlast()", {"a", "b"}),
        ("for i in range(a):\n    first()\n    b\nc\nlast()", {"a", "b", "c"}),
        ("for i in range(a):\n    b\n    last()\n    c\n    first()\n    d", {"a", "b", "c", "d"}),
        ("while True:\n    last()\n    a\n    first()", {"a"}),
        ("first()\ntry:\n    a\n    last()\nfinally:\n    b", {"a"}),
        ("first()\ndef f(x=a): b\nlast()", {"a"}),
    ],
)
def test_everything_that_runs_in_between_is_returned(source, expected):
    assert names_between(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "first()\nif a: b\nlast()",
        "first()\nif a: last()",
        "if a:\n    b\nelse:\n    first()\nlast()",
        "if first():\n    last()",
        "first()\nwhile a: b\nlast()",
        "while True:\n    first()\n    if a: break\nlast()",
        "while a:\n    last()\n    first()",
        "for x in a:\n    first()\nlast()",
        "first()\nfor x in a:\n    last()",
        "try:\n    first()\nexcept E:\n    a\nlast()",
        "try:\n    first()\nexcept E:\n    last()",
        "if a:\n    first()\nelse:\n    last()",
        "first()\nassert a\nlast()",
        "first()\nmatch a:\n    case 1: b\nlast()",
        "last()\nfirst()",
    ],
)
def test_several_possible_paths_raise_an_error(source):
    with pytest.raises(NotStraightLineError):
        names_between(source)


def test_a_loop_does_not_lead_back_in_code_that_may_have_been_left():
    source = "for i in range(3):\n    last()\n    first()"
    assert names_between(source) == set()
    with pytest.raises(NotStraightLineError):
        names_between(source, is_once=False)


def test_paths_from_the_beginning_and_to_the_end_of_the_code():
    assert names_between("a\nb\nlast()\nc", start=None) == {"a", "b"}
    assert names_between("a\nfirst()\nb\nc", end=None) == {"b", "c"}
