"""Copies to the host that unknown code gets while they are in flight."""

import ast

import pytest

from syncheck.lint.interp.given_copies import GivenCopies
from syncheck.lint.interp.values import UNKNOWN_STREAM, Constant, Native, Sequence, Stream, Tensor

NODE = ast.parse("f()", mode="eval").body
REPORTED = "escape unknown code r1"


def call(source):
    return ast.parse(source, mode="eval").body


@pytest.fixture
def copies(machine):
    return GivenCopies(machine)


@pytest.fixture
def side(machine):
    return machine.new_stream(0, NODE)


@pytest.fixture
def copy(machine, copies, side):
    """A copy in flight on a side stream."""
    made = Tensor(machine.allocate(None, NODE, is_pinned=True))
    copies.made(made, side.ident)
    return made


@pytest.fixture
def ended(copies, program):
    """Return the calls that the end of a path makes."""

    def end():
        start = len(program.calls)
        copies.ended()
        return program.calls[start:]

    return end


def test_a_copy_that_unknown_code_reads_in_flight_is_a_finding(machine, copies, copy, side, ended):
    machine.launch(side.ident, "aten::copy_", [(copy, True)], NODE)
    copies.give([copy], call("check(x)"))
    assert machine.findings == []
    assert ended() == [REPORTED, "ended"]
    assert len(machine.findings) == 1


def test_without_unknown_code_the_path_just_ends(copy, ended):
    assert copy.block.ident
    assert ended() == ["ended"]


@pytest.mark.parametrize("source", ["check(x)", "self.report.check(x)", "checks[0](x)", "optimizer.step(x)"])
def test_most_code_is_assumed_to_read_immediately(source, copies, copy, ended):
    copies.give([Constant(1), copy], call(source))
    assert ended() == [REPORTED, "ended"]


@pytest.mark.parametrize(
    "source",
    ["Batch(x)", "wait_for(x)", "self.flush(x)", "kept.append(x)", "storeResult(x)", "make()(x)", "scheduler.step(x)"],
)
def test_code_whose_name_says_so_may_wait_or_keep_the_copy(source, copies, copy, ended):
    copies.give([copy], call(source))
    assert ended() == ["ended"]


def test_code_that_gets_something_to_wait_for_may_wait(machine, copies, copy, side, ended):
    event = machine.new_event(NODE, timing=False)
    native = Native(lambda *_: None)
    for other in (side, Stream(UNKNOWN_STREAM, 0), event, Sequence([event]), native):
        copies.give([copy, other], call("check(x, y)"))
    assert ended() == ["ended"]


def test_only_known_copies_in_flight_count(machine, copies, side, ended):
    pageable, other = Tensor(machine.allocate(None, NODE)), Tensor(machine.allocate(None, NODE, is_pinned=True))
    lost = Tensor(machine.allocate(None, NODE, is_pinned=True))
    copies.made(pageable, side.ident)
    copies.made(lost, UNKNOWN_STREAM)
    for given in (pageable, other, lost):
        copies.give([given], call("check(x)"))
    assert ended() == ["ended"]


def test_a_copy_with_an_array_or_an_unknown_owner_is_not_followed(copies, copy, ended):
    copy.array = NODE
    copies.give([copy], call("check(x)"))
    copy.array, copy.block.escaped = None, True
    copies.give([copy], call("check(x)"))
    assert ended() == ["ended"]


def test_a_branch_followed_only_for_order_gives_nothing(machine, copies, copy, ended):
    machine.ordering_only = 1
    copies.give([copy], call("check(x)"))
    machine.ordering_only = 0
    assert ended() == ["ended"]


@pytest.mark.parametrize("source", ["done.record()", "side.record_event()"])
def test_an_event_that_unknown_code_records_drops_earlier_copies_only(source, copies, copy, ended):
    copies.give([copy], call("check(x)"))
    copies.give([], call(source))
    assert ended() == ["ended"]
    copies.give([copy], call("check(x)"))
    assert ended() == [REPORTED, "ended"]


def test_an_event_recorded_after_the_copy_may_be_waited_for(machine, copies, copy, side, ended):
    copies.give([copy], call("check(x)"))
    event = machine.new_event(NODE, timing=False)
    machine.record(event, None, NODE)
    assert ended() == [REPORTED, "ended"]  # on another stream
    machine.record(event, side, NODE)
    assert ended() == ["ended"]


def test_an_event_recorded_before_the_copy_does_not_help(machine, copies, side, ended):
    machine.record(machine.new_event(NODE, timing=False), side, NODE)
    late = Tensor(machine.allocate(None, NODE, is_pinned=True))
    copies.made(late, side.ident)
    copies.give([late], call("check(x)"))
    assert ended() == [REPORTED, "ended"]


def test_each_use_of_each_copy_is_reported(machine, copies, copy, side, ended):
    other = Tensor(machine.allocate(None, NODE, is_pinned=True))
    copies.made(other, side.ident)
    copies.give([copy, other], call("check(x, y)"))
    copies.give([other], call("check(y)"))
    assert ended() == [REPORTED, "escape unknown code r2", "escape unknown code r2", "ended"]
