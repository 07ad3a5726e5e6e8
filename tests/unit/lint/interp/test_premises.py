"""Premises of a path, and the findings that rest on them."""

import ast

import pytest

from syncheck.hb.ids import NO_ALLOCATION, AllocationId, SiteId
from syncheck.lint.interp.premises import Premise, Premises, description_of, true, untrue
from syncheck.lint.interp.values import Block, Tensor
from syncheck.rules.catalogue import find

RACE = find("SYN101")
ALL = frozenset(Premise)


def tensor(ident):
    return Tensor(Block(AllocationId(ident), 0, is_pinned=False, died=lambda _: None))


def expression(text):
    return ast.parse(text, mode="eval").body


def rests_on(premises, site, *related, allocation=NO_ALLOCATION):
    premises.finding(RACE, SiteId(site), map(SiteId, related), AllocationId(allocation))
    return premises.found.get(("SYN101", SiteId(site)))


def test_nothing_is_assumed_by_default():
    premises = Premises()
    assert not premises.has(Premise.CODE)
    assert not premises.make(Premise.CODE, "`f()` does not wait")
    assert rests_on(premises, 1) is None


def test_written_tensors_inherit_the_premises_of_those_read():
    premises = Premises(ALL)
    x, y, z = tensor(1), tensor(2), tensor(3)
    premises.assume_on_gpu(x, "`x` is on a GPU")
    premises.launched(SiteId(1), [(x, False), (y, True)])
    premises.launched(SiteId(2), [(y, False), (z, False)])
    premises.launched(SiteId(3), [(z, False)])
    assert rests_on(premises, 2) == ("`x` is on a GPU",)
    assert rests_on(premises, 3) == ()
    assert rests_on(premises, 4, 3, allocation=2) == ("`x` is on a GPU",)


def test_a_finding_rests_on_premises_made_between_its_places():
    premises = Premises(ALL)
    assert premises.make(Premise.CODE, "before")
    premises.launched(SiteId(1), [])
    assert premises.make(Premise.BRANCH, "between")
    assert premises.make(Premise.BRANCH, "between")
    premises.launched(SiteId(2), [])
    assert rests_on(premises, 2, 1) == ("between",)
    assert rests_on(premises, 3, 2) == ("before", "between")  # nothing lies in between, so all premises count


def test_the_first_finding_at_a_place_counts():
    premises = Premises(ALL)
    premises.make(Premise.CODE, "one")
    assert rests_on(premises, 1) == ("one",)
    premises.make(Premise.CODE, "two")
    assert rests_on(premises, 1) == ("one",)


def test_a_branch_is_skipped_only_if_that_is_assumed():
    (node,) = ast.parse("if x is None: wait()").body
    assert not Premises().skip(node, value=False)
    premises = Premises(ALL)
    assert premises.skip(node, value=False)
    assert premises.skip(node, value=True)
    assert rests_on(premises, 1) == ("`x` is not None", "`x` is None")


def test_kept_tensors_live_as_long_as_the_path():
    gone = []
    premises = Premises(ALL)
    kept = Tensor(Block(AllocationId(7), 0, is_pinned=False, died=lambda block: gone.append(block.ident)))
    premises.keep([kept])
    del kept
    assert gone == []
    del premises
    assert gone == [7]


def test_a_long_expression_is_truncated():
    assert description_of(expression("f( x,y )")) == "`f(x, y)`"
    assert description_of(expression("f(" + "x, " * 30 + ")")) == "`f(x, x, x, x, x, x, x, x, x, x, x, x ...`"


@pytest.mark.parametrize(
    ("test", "holds", "does_not"),
    [
        ("sync", "`sync` is true", "`sync` is false"),
        ("not sync", "`sync` is false", "`sync` is true"),
        ("s is None", "`s` is None", "`s` is not None"),
        ("self.s is not None", "`self.s` is not None", "`self.s` is None"),
        ("not s is None", "`s` is not None", "`s` is None"),
        ("n > 3", "`n > 3` is true", "`n > 3` is false"),
        ("a is b", "`a is b` is true", "`a is b` is false"),
    ],
)
def test_conditions_are_described_in_words(test, holds, does_not):
    assert true(expression(test)) == holds
    assert untrue(expression(test)) == does_not
