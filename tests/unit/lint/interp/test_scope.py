"""Names visible in a function."""

import ast

from syncheck.lint.interp.scope import LazyScope, Scope, definitions_in, flat, super_of
from syncheck.lint.interp.values import UNKNOWN, Class, Constant, Instance


def nested():
    module = Scope()
    outer = Scope(module)
    return module, outer, Scope(outer)


def test_names_are_found_from_the_inside_out():
    module, outer, inner = nested()
    a, b = Constant(1), Constant(2)
    module.set("a", a)
    outer.set("a", b)
    assert inner.find("a") is b
    assert module.find("a") is a
    assert inner.find("b") is None
    assert inner.module is module


def test_an_assignment_binds_in_its_own_scope():
    module, _, inner = nested()
    module.set("a", Constant(1))
    inner.set("a", Constant(2))
    assert module.find("a").value == 1
    inner.delete("a")
    assert inner.find("a").value == 1
    inner.delete("a")
    assert module.find("a").value == 1


def test_global_names_are_bound_in_the_module():
    module, outer, inner = nested()
    outer.set("a", Constant(1))
    inner.share("a", is_global=True)
    inner.set("a", Constant(2))
    assert module.find("a").value == 2
    assert outer.find("a").value == 1
    assert inner.find("a").value == 2


def test_nonlocal_names_are_bound_in_the_function_that_defines_them():
    module, outer, inner = nested()
    outer.set("a", Constant(1))
    inner.share("a", is_global=False)
    inner.set("a", Constant(2))
    assert outer.names["a"].value == 2
    assert "a" not in module.names


def test_a_lazily_executed_module_defines_names_on_demand():
    ran = []

    def run(statement, scope):
        ran.append(ast.unparse(statement))
        if isinstance(statement, ast.Assign):
            scope.set("a", Constant(1))

    scope = LazyScope(definitions_in(ast.parse("a = 1\nb = a\nimport c").body).get, run)
    assert scope.find("a").value == 1
    assert scope.find("a").value == 1
    assert ran == ["a = 1"]
    assert scope.find("b") is UNKNOWN  # its statement binds nothing here
    assert scope.find("d") is None


def test_a_self_referential_definition_is_not_run_again():
    scope = LazyScope(definitions_in(ast.parse("a = f(a)").body).get, lambda _, inside: inside.find("a"))
    assert scope.find("a") is UNKNOWN


def test_each_name_maps_to_the_first_statement_that_binds_it():
    source = """
import x.y, z as w
from m import n, o as p
def f(): inner = 1
class K: pass
a, (b, c) = 1, (2, 3)
d: int = 1
e: int
if test:
    g = 1
else:
    h = 1
try:
    i = 1
except E:
    j = 1
a = 2
"""
    found = definitions_in(ast.parse(source).body)
    assert sorted(found) == sorted("x w n p f K a b c d g h i".split())
    assert ast.unparse(found["a"]).startswith("a, (b, c)")


def test_branches_of_a_module_are_flattened():
    tree = ast.parse("if a:\n    b\n    if c:\n        d\nelse:\n    e\nfor f in g:\n    h")
    assert [ast.unparse(statement).partition("\n")[0] for statement in flat(tree.body)] == [
        "b", "d", "e", "for f in g:",
    ]  # fmt: skip


def test_the_base_of_a_method_is_the_same_object_with_its_first_base_as_the_class():
    _, _, method = nested()
    assert super_of(method) is UNKNOWN
    node = ast.parse("class A: pass").body[0]
    base = Class(node, Scope(), [])
    instance = Instance(Class(node, Scope(), [Constant(1), base]))
    method.set("self", instance)
    found = super_of(method)
    assert found.kind is base
    assert found.attributes is instance.attributes
