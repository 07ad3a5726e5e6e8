"""Bindings of statements and their scopes."""

import ast

import pytest

from syncheck.source.bindings import Scope, binding_scope, collect


def scopes_in(text):
    tree = ast.parse(text)
    module, scopes = Scope(tree, None), {}
    collect(tree, module, scopes)
    return module, {scope.node.name: scope for scope in scopes.values()}


@pytest.mark.parametrize(
    "text",
    [
        "x = 1", "for x in y: pass", "import x", "import a.b as x", "from a import b as x", "def x(): pass",
        "class x: pass", "with a as x: pass", "f(x := 1)", "[(x := y) for y in z]", "del_, (x, *a) = b",
        "try: pass\nexcept E as x: pass", "match a:\n    case [x]: pass", "match a:\n    case {**x}: pass",
    ],
)  # fmt: skip
def test_a_statement_binds_a_name(text):
    module, _ = scopes_in(text)
    assert "x" in module.bindings


def test_a_name_belongs_to_the_scope_that_binds_it():
    module, inside = scopes_in("x = y = 1\nclass A:\n    y = 2\n    def f(self, z):\n        global w\n        w = x\n")
    method = inside["f"]
    assert binding_scope("z", method) is method
    assert binding_scope("x", method) is module
    assert binding_scope("y", method) is module  # not the class's
    assert binding_scope("w", method) is module
    assert binding_scope("v", method) is None
    assert method.first_parameter == "self"
