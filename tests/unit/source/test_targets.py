"""The target of a value, and the call that it is given."""

import ast

import pytest

from syncheck.source.targets import passed_on_in, target_in


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("copy = X()", "copy"), ("self.stream = X()", "self.stream"), ("a = b = X()", "a"), ("s: T = X()", "s"),
        ("a, b = f(), X()", "b"),
        ("streams = [f(), X()]", "streams[1]"), ("streams = [X() for _ in y]", "streams[...]"),
        ("d = {'k': X()}", "d['k']"), ("d = {k: X()}", ""), ("d = {k: X() for k in y}", ""), ("d = {**X()}", ""),
        ("a = [(f(), X()) for _ in y]", "a[...][1]"), ("a = [[X() for _ in y] for _ in z]", ""),
        ("a = [tuple(X() for _ in y) for _ in z]", ""), ("a = [f(X()) for _ in y]", "a[...]"),
        ("a = tuple(X() for _ in y)", "a[...]"), ("a = list([X() for _ in y])", "a[...]"),
        ("a = f(X() for _ in y)", ""),
        ("a = {'k': [f(), X()]}", "a['k'][1]"), ("*a, b = X()", ""),
        ("a, b = (X() for _ in y)", "(a, b)[...]"), ("if (n := X()): pass", "n"),
        ("with X() as c: pass", "c"), ("del X", "X"), ("del a, X", "X"), ("f(X())", ""), ("a.b[0] = X()", "a.b[0]"),
        ("return_ = f(X())", "return_"), ("a = [f()]; b = X()", "b"), ("a = f(); X(); c = f()", ""),
    ],
)  # fmt: skip
def test_a_new_value_is_named_by_its_assignment_target(source, name):
    tree = ast.parse(source)
    made = next(node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "X")
    assert target_in(ast.walk(tree), made.lineno, made.col_offset) == name


@pytest.mark.parametrize(
    ("source", "is_passed_on"),
    [
        ("f(X())", True), ("f(k=X())", True), ("f([X()])", True), ("lambda: X()", True), ("a = X()", False),
        ("a = list(X() for _ in y)", False), ("a = tuple([X()])", False), ("X()", False),
    ],
)  # fmt: skip
def test_a_new_value_is_passed_on_by_a_call_around_it(source, is_passed_on):
    tree = ast.parse(source)
    made = next(node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "X")
    assert passed_on_in(ast.walk(tree), made.lineno, made.col_offset) is is_passed_on
