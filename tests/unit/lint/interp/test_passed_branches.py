"""Branches that a path passes repeatedly."""

import ast

import pytest

from syncheck.lint.interp.passed_branches import PassedBranches
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import UNKNOWN, Attribute, Constant, Instance, Mapping, Sequence, Stream, Symbol
from tests.unit.lint.program import calls_of

BODY = ast.parse("f(x)").body


@pytest.fixture
def passed(machine):
    return PassedBranches(machine)


def scope(value, other=UNKNOWN):
    found = Scope()
    found.names |= {"x": value, "y": other}
    return found


EQUAL = {
    "unknown": lambda: UNKNOWN,
    "constant": lambda: Constant(3),
    "symbol": lambda: Symbol("torch.cuda"),
    "attribute": lambda: Attribute(UNKNOWN, "wait"),
    "sequence": lambda: Sequence([Constant(3), Attribute(UNKNOWN, "wait")]),
    "mapping": lambda: Mapping({"a": Constant(3)}),
}


@pytest.mark.parametrize("value", EQUAL.values(), ids=EQUAL)
def test_a_branch_without_an_effect_is_idle_with_the_same_values(passed, value):
    assert not passed.is_idle(BODY, scope(value()))
    assert passed.is_idle(BODY, scope(value()))


@pytest.mark.parametrize(
    "other",
    [Constant(4), Symbol("torch"), Stream(1, 0), Instance(None), Sequence([Stream(1, 0)]), Mapping({})],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("value", EQUAL.values(), ids=EQUAL)
def test_a_branch_runs_again_with_another_value(passed, value, other):
    passed.is_idle(BODY, scope(value()))
    assert not passed.is_idle(BODY, scope(other))


def test_names_not_used_in_a_branch_do_not_matter(passed):
    passed.is_idle(BODY, scope(UNKNOWN, Constant(1)))
    assert passed.is_idle(BODY, scope(UNKNOWN, Constant(2)))


def test_a_branch_runs_again_after_other_events(passed, machine):
    passed.is_idle(BODY, scope(UNKNOWN))
    machine.new_event(BODY[0], timing=False)
    assert not passed.is_idle(BODY, scope(UNKNOWN))
    assert passed.is_idle(BODY, scope(UNKNOWN))


HELPER = """
side = torch.cuda.Stream()
def order(stream):
    if unknown:
        pass
    else:
        stream.synchronize()
"""


def syncs(source):
    return [call for call in calls_of(source, HELPER) if call.startswith("sync")]


def test_a_branch_orders_a_stream_even_if_it_ran_without_one_before():
    assert len(syncs("order(None)\norder(side)\n")) == 1
    assert not syncs("order(None)\norder(None)\n")


def test_a_branch_with_an_effect_runs_each_time():
    assert len(syncs("order(side)\norder(side)\n")) == 2
