"""Tensors that a function computes, and what keeps them."""

import ast

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.temporaries import KEEPING, is_new, kept


def value(source):
    return ast.parse(source, mode="eval").body


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("torch.cat([a, b])", True), ("F.relu(a)", True), ("a @ b", True), ("self.q_proj(a)[0]", True),
        ("torch.cat([a, b]).view(-1)", True), ("torch.zeros(4)", False), ("load(a)", False), ("a + 1", False),
    ],
)  # fmt: skip
def test_results_of_operators_and_layers_are_new(source, expected):
    assert is_new(value(source), []) is expected


def test_variables_are_followed_through_assignments():
    before = ast.parse("x = torch.cat([a, b])\ny = x.view(-1)").body
    assert is_new(value("y"), before)
    assert not is_new(value("x"), [*before, *ast.parse("x = load()").body])
    assert not is_new(value("p"), before)
    assert is_new(value("p[1:]"), before, {"p"})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("self.k = x", {"x"}), ("k[i] = x", {"x"}), ("k[:i] = x", set()), ("y = x[1:]", {"x"}), ("k.append(x)", {"x"}),
        ("y = [x]", {"x"}), ("y = torch.cat([x, x])", set()), ("f(x)", set()), ("f = lambda: x", {"f", "x"} - {"f"}),
    ],
)  # fmt: skip
def test_what_keeps_a_tensor(source, expected):
    assert kept(walk(ast.parse(source))) & {"x"} == expected
    assert "append" in KEEPING
