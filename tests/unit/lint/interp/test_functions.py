"""Binding of arguments to parameters."""

import ast

import pytest

from syncheck.lint.interp.functions import bind, defaults_of, functions_with_nodes, is_generator, own_nodes
from syncheck.lint.interp.values import UNKNOWN, Call, Constant, Function
from tests.unit.lint.program import plain


def function(signature, body="pass"):
    node = ast.parse(f"def f({signature}):\n    {body}").body[0]
    return Function(node, None, defaults_of(node, lambda default: Constant(default.value)))


def bound(signature, *args, is_complete=True, **kwargs):
    given = Call(ast.Pass(), [Constant(a) for a in args], {k: Constant(v) for k, v in kwargs.items()}, is_complete)
    return {name: plain(value) for name, value in bind(function(signature), given).items()}


@pytest.mark.parametrize(
    ("signature", "args", "kwargs", "names"),
    [
        ("a, b=2", (1,), {}, {"a": 1, "b": 2}),
        ("a, b=2", (), {"b": 3, "a": 4}, {"a": 4, "b": 3}),
        ("a, /, b, *, c=5", (1, 2), {}, {"a": 1, "b": 2, "c": 5}),
        ("a, *rest, c=5", (1, 2, 3), {"c": 6}, {"a": 1, "rest": [2, 3], "c": 6}),
        ("a, **more", (1,), {"x": 2}, {"a": 1, "more": {"x": 2}}),
        ("a", (), {}, {"a": "unknown"}),  # it would raise
        ("a", (1, 2), {}, {"a": 1}),
    ],
)
def test_arguments_are_bound_to_parameters(signature, args, kwargs, names):
    assert bound(signature, *args, **kwargs) == names


def test_with_arguments_of_unknown_length_no_default_applies():
    assert bound("a, b=2, *rest, **more", 1, is_complete=False) == {
        "a": 1,
        "b": "unknown",
        "rest": ["..."],
        "more": {"...": "..."},
    }


def test_defaults_belong_to_the_last_parameters_and_to_keywords():
    assert {name: value.value for name, value in function("a, b, c=3, *, d, e=5").defaults.items()} == {"c": 3, "e": 5}
    assert UNKNOWN not in function("a").defaults.values()


@pytest.mark.parametrize(
    ("body", "yields"),
    [
        ("yield 1", True), ("yield from x", True), ("x = yield", True), ("return 1", False),
        ("return [(yield)]", True), ("g = lambda: (yield)", False),
    ],
)  # fmt: skip
def test_a_function_that_yields_is_a_generator(body, yields):
    assert is_generator(function("a", body).node) is yields


def test_nodes_of_nested_functions_are_not_own_nodes():
    node = ast.parse("def f():\n    a\n    def g():\n        b\n    class C:\n        c\n    [d for _ in e]").body[0]
    assert {inner.id for inner in own_nodes(node) if isinstance(inner, ast.Name)} >= {"a", "d", "e"}
    assert not {inner.id for inner in own_nodes(node) if isinstance(inner, ast.Name)} & {"b", "c"}


def test_the_functions_of_a_file_have_only_their_own_nodes():
    tree = ast.parse("def f():\n    a\n    def g(): b\n")
    names = {
        function.name: [node.id for node in nodes if isinstance(node, ast.Name)]
        for function, nodes in functions_with_nodes(tree)
    }
    assert names == {"f": ["a"], "g": ["b"]}
