"""The identity of unknown values."""

from syncheck.lint.interp.identities import Objects, has_identity, is_unknown, named
from syncheck.lint.interp.values import DERIVED, MOVED, UNKNOWN, Constant, Value
from tests.unit.lint.program import follow


def test_only_values_about_which_nothing_is_known_are_unknown():
    assert all(map(is_unknown, (UNKNOWN, Value())))
    assert not any(map(is_unknown, (DERIVED, MOVED, Constant(1), None)))


def test_a_name_gives_an_unknown_value_an_identity():
    first, second = named(UNKNOWN), named(UNKNOWN)
    assert first is not second
    assert has_identity(first)
    assert not has_identity(UNKNOWN)
    assert named(first) is first
    assert named(DERIVED) is DERIVED


def test_variables_parameters_and_attributes_keep_the_identity():
    source = """
        class A:
            def __init__(self, v): self.v = v
        def same(v): return v
        a = f()
        b = same(a)
        c = A(b).v
        d = f()
    """
    names = follow(source).scope.names
    assert names["a"] is names["b"] is names["c"]
    assert names["d"] is not names["a"]


def test_objects_of_unknown_classes_are_unknown_but_known_as_such():
    objects = Objects()
    made = objects.new()
    assert is_unknown(made)
    assert has_identity(made)
    assert made in objects
    assert objects.new() is not made
    assert Value() not in objects


def test_an_iterator_over_something_unknown_is_not_none():
    names = follow(
        "a = iter(f())\nb = a is None\nc = a is not None\nd = a is not iter(g())\ne = f() is None"
    ).scope.names
    assert is_unknown(names["a"])
    assert (names["b"].value, names["c"].value) == (False, True)
    assert is_unknown(names["d"])
    assert is_unknown(names["e"])
