"""The identity of unknown values."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.identities import Elements, Objects, has_identity, is_unknown, named
from syncheck.lint.interp.values import DERIVED, MOVED, UNKNOWN, Constant, Value
from syncheck.rules.model import Severity
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


def test_two_loops_over_one_unknown_value_visit_the_same_elements():
    elements, source, other = Elements(), Value(), Value()
    first, second = elements.of(source, 0), elements.of(source, 1)
    assert first is not second
    assert [elements.of(source, index) for index in range(2)] == [first, second]
    assert elements.of(other, 0) is not first


@pytest.mark.parametrize(("again", "codes"), [("rows", ["SYN102"]), ("others", [])])
def test_rows_that_another_loop_still_copies_are_overwritten(again, codes):
    text = f"""import torch
def move(table, rows, others):
    source, target = torch.zeros(8, 8, device="cuda"), torch.empty(8, 8, pin_memory=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for row in rows:
            target[row].copy_(source[row], non_blocking=True)
    for row in {again}:
        source[row].zero_()
    side.synchronize()
"""
    found = lint_source("m.py", Text(text)).findings
    assert [finding.rule.code for finding in found if finding.level is Severity.ERROR] == codes
