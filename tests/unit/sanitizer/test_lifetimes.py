"""Lifetimes of allocations."""

import pytest

from syncheck.errors import TraceError
from syncheck.hb.clock import HOST
from syncheck.sanitizer import lifetimes
from syncheck.sanitizer.messages import StreamInfo
from syncheck.sanitizer.monitor import SourceLine
from tests.unit.sanitizer.program import Program

HOME, SIDE = 1, 2


@pytest.fixture
def program():
    return Program()


def used_on_side_stream(program, line=5):
    """Return memory of stream 1 that stream 2, ordered after it, is reading."""
    x = program.allocate(HOME, line)
    program.write(HOME, x, line + 1)
    program.session.wait_stream(SIDE, HOME, line + 2)
    program.read(SIDE, x, line + 3)
    return x


def codes(program, *left_out):
    return [found for found in program.found() if found[0] not in {"SYN802", *left_out}]


def test_reuse_of_memory_in_use_is_reported_with_all_places(program):
    x = used_on_side_stream(program)
    program.session.free(x, 10)
    assert codes(program) == []
    program.allocate(HOME, 12)
    (finding,) = (f for f in program.report().findings if f.rule.code == "SYN201")
    assert finding.location.frame.line == 8
    assert [location.frame.line for location in finding.related] == [10, 5, 12]


def test_memory_in_use_is_held_until_its_new_owner_has_used_it(program):
    x = used_on_side_stream(program)
    assert not program.session.holds_used_memory()
    program.session.free(x, 10)
    assert program.session.holds_used_memory()
    y = program.allocate(HOME, 12)
    assert program.session.holds_used_memory()
    program.session.sync_stream(SIDE, 13, explicit=True)
    program.write(HOME, y, 14)
    assert not program.session.holds_used_memory()


def test_a_repeated_reuse_reports_the_next_tensor_for_naming_once(program):
    collector = program.session.collector
    collector.names.streams[SIDE] = StreamInfo(0, 1, 3)
    seen = []
    collector._on_finding = lambda pending: seen.append((pending.rule.code, pending.successor))
    for _ in range(2):
        x = used_on_side_stream(program)
        program.session.launch(SIDE, "aten::sum", [(program.allocate(SIDE), program.view, False)], 8)
        program.session.free(x, 10)
        program.write(HOME, program.allocate(HOME, 12), 13)
    assert seen == [("SYN201", 0), ("SYN201", x)]
    used_on_side_stream(program)
    assert seen == [("SYN201", 0), ("SYN201", x)]  # once is enough


def test_a_tensor_of_another_stream_is_not_taken_for_the_freed_one(program):
    seen = []
    program.session.collector.names.streams[SIDE] = StreamInfo(0, 1, 3)
    program.session.free(used_on_side_stream(program), 10)
    program.write(HOME, program.allocate(HOME, 12), 13)
    program.session.collector._on_finding = seen.append
    program.read(SIDE, program.allocate(SIDE, 14), 8)
    assert seen == []


@pytest.mark.parametrize("user", [HOME, SIDE])
def test_only_the_first_use_of_reused_memory_counts(program, user):
    program.session.free(used_on_side_stream(program), 10)
    y = program.allocate(HOME, 12)
    if user == HOME:
        program.session.wait_stream(HOME, SIDE, 13)
    program.write(user, y, 14)
    program.write(HOME, y, 15)
    assert codes(program, "SYN103") == []


def test_the_pair_of_a_reuse_is_the_old_use_and_the_first_use(program):
    program.session.free(used_on_side_stream(program), 10)
    y = program.allocate(HOME, 12)
    program.session.stream(3, 0, 99, 0, legacy=False, blocking=False)
    program.session.wait_stream(3, HOME, 13)
    program.write(HOME, program.allocate(HOME, 13), 14)
    program.write(3, y, 15)
    (finding,) = (f for f in program.report().findings if f.rule.code == "SYN201")
    assert finding.pair == ((SIDE, 1), (3, 1))


def test_memory_freed_again_without_an_observed_use_may_have_been_reused(program):
    program.session.free(used_on_side_stream(program), 10)
    program.session.free(program.allocate(HOME, 12), 13)
    assert codes(program) == [("SYN201", 8)]


@pytest.mark.parametrize("end", ["waited", "synchronized", "recorded"])
def test_protected_memory_may_be_reused(program, end):
    x = used_on_side_stream(program)
    if end == "recorded":
        program.session.record_stream(x, program.view, SIDE, 9)
    elif end == "waited":
        program.session.wait_stream(HOME, SIDE, 9)
    else:
        program.session.sync_device(0, 9)
    program.session.free(x, 10)
    program.allocate(HOME, 12)
    assert codes(program) == []


def test_other_streams_and_size_classes_get_other_memory(program):
    program.session.free(used_on_side_stream(program), 10)
    program.allocate(SIDE, 12)
    program.session.allocate(program.new_id(), HOME, 2 << 20, 0, 13)
    assert codes(program) == []
    program.allocate(HOME, 14)
    assert codes(program) == [("SYN201", 8)]


def test_pinned_memory_is_protected_by_its_allocator(program):
    h = program.allocate(HOST, 5)
    program.read(SIDE, h, 6)
    program.session.free(h, 7)
    program.allocate(HOST, 8)
    assert codes(program) == []


def test_memory_of_a_graph_stays_with_the_graph(program):
    program.session.capture_begin(1, HOME, 4)
    x = program.allocate(HOME, 5)
    program.write(HOME, x, 6)
    program.session.capture_end(1)
    program.read(SIDE, x, 8)
    program.session.free(x, 9)
    program.allocate(HOME, 10)
    assert codes(program, "SYN101", "SYN104", "SYN903") == []


# -- record_stream


def test_record_stream_before_a_wait_only_delays_the_free(program):
    x = used_on_side_stream(program)
    program.session.record_stream(x, program.view, SIDE, 9)
    program.session.wait_stream(HOME, SIDE, 10)
    program.session.free(x, 11)
    assert codes(program) == [("SYN202", 9)]


def test_record_stream_of_unknown_memory_is_an_error_of_the_trace(program):
    with pytest.raises(TraceError, match="4321"):
        program.session.record_stream(4321, program.view, SIDE, 9)


def test_a_record_stream_that_protects_once_is_not_useless(program):
    for waits in (True, False):
        x = used_on_side_stream(program)
        program.session.record_stream(x, program.view, SIDE, 9)
        if waits:
            program.session.wait_stream(HOME, SIDE, 10)
        program.session.free(x, 11)
    assert codes(program, "SYN102") == []


def test_a_record_stream_that_protects_for_another_caller_is_not_useless(program, monkeypatch):
    monkeypatch.setattr(program, "lines_of", lambda site: (SourceLine("program.py", 9 if site == 19 else site),))
    for waits, site in ((True, 9), (False, 19)):
        x = used_on_side_stream(program)
        program.session.record_stream(x, program.view, SIDE, site)
        if waits:
            program.session.wait_stream(HOME, SIDE, 10)
        program.session.free(x, 11)
    assert codes(program, "SYN102") == []


def test_recording_the_tensors_own_stream_is_useless(program):
    x = program.allocate(HOME, 5)
    program.session.record_stream(x, program.view, HOME, 9)
    assert codes(program) == [("SYN202", 9)]


def test_recording_the_own_stream_is_not_judged_if_the_call_records_others_too(program):
    x, y = program.allocate(HOME, 5), used_on_side_stream(program)
    program.session.record_stream(x, program.view, HOME, 9)
    program.session.record_stream(y, program.view, SIDE, 9)
    assert codes(program) == []


def test_recording_the_wrong_stream_is_reported_as_the_reuse_it_allows(program):
    x = used_on_side_stream(program)
    program.session.record_stream(x, program.view, HOME, 9)
    program.session.free(x, 10)
    program.allocate(HOME, 12)
    assert codes(program) == [("SYN201", 8)]


def test_record_stream_calls_by_torch_are_not_judged(program):
    x = used_on_side_stream(program)
    program.session.record_stream(x, program.view, SIDE, 0)
    program.session.record_stream(x, program.view, HOME, 0)
    program.session.wait_stream(HOME, SIDE, 10)
    program.session.free(x, 11)
    assert codes(program) == []


def test_record_stream_during_capture_is_not_judged(program):
    x = program.allocate(HOME, 5)
    program.session.capture_begin(1, HOME, 6)
    program.session.record_stream(x, program.view, HOME, 9)
    program.session.capture_end(1)
    assert codes(program) == []


def test_only_the_latest_useless_records_are_remembered(program, monkeypatch):
    monkeypatch.setattr(lifetimes, "_KEPT_RECORDS", 2)
    tensors = [used_on_side_stream(program) for _ in range(4)]
    for x in tensors:
        program.session.record_stream(x, program.view, HOME, 9)
    for x in tensors:
        program.session.free(x, 10)
    program.allocate(HOME, 12)
    assert [code for code, _ in codes(program)] == ["SYN201"]


def test_tensors_used_by_one_operation_are_reported_separately(program):
    tensors = [program.allocate(HOME, 5) for _ in range(2)]
    for x in tensors:
        program.write(HOME, x, 6)
    program.session.wait_stream(SIDE, HOME, 7)
    program.session.launch(SIDE, "aten::cat", [(x, program.view, False) for x in tensors], 8)
    for x in tensors:
        program.session.free(x, 10)
    program.write(HOME, program.allocate(HOME, 12), 13)
    pending = [p for p in program.session.collector._pending_findings.values() if p.rule.code == "SYN201"]
    assert [p.allocation for p in pending] == tensors


# -- inside a capture


def captured(program, *, joins=False, records=False):
    """Free memory that another branch reads inside a capture, and allocate again."""
    session = program.session
    session.capture_begin(1, HOME, 1)
    x = used_on_side_stream(program)
    if records:
        session.record_stream(x, program.view, SIDE, 9)
    if joins:
        session.wait_stream(HOME, SIDE, 9)
    session.free(x, 10)
    program.write(HOME, program.allocate(HOME, 12), 13)
    session.wait_stream(HOME, SIDE, 14)
    session.capture_end(1)
    return codes(program, "SYN203", "SYN904")


def test_memory_that_another_branch_uses_is_reused_inside_a_capture(program):
    assert captured(program) == [("SYN201", 8)]
    (finding,) = (f for f in program.report().findings if f.rule.code == "SYN201")
    assert [location.frame.line for location in finding.related] == [10, 5, 12]
    assert finding.pair is None


@pytest.mark.parametrize("protection", ["joins", "records"])
def test_a_joined_branch_and_a_recorded_stream_protect_memory_inside_a_capture(program, protection):
    assert captured(program, **{protection: True}) == []


def test_a_new_capture_does_not_reuse_the_memory_of_the_last_one(program):
    session = program.session
    session.capture_begin(1, HOME, 1)
    x = used_on_side_stream(program)
    session.wait_stream(HOME, SIDE, 9)
    session.capture_end(1)
    session.free(x, 10)
    session.capture_begin(2, HOME, 11)
    program.write(HOME, program.allocate(HOME, 12), 13)
    session.capture_end(2)
    assert codes(program) == []


def test_of_the_many_tensors_of_one_operator_few_are_reported_by_themselves(program, monkeypatch):
    monkeypatch.setattr(lifetimes, "_MAX_NAMED", 3)
    tensors = [program.allocate(HOME, 5) for _ in range(10)]
    program.session.wait_stream(SIDE, HOME, 6)
    program.session.launch(SIDE, "aten::_foreach_add", [(x, program.view, False) for x in tensors], 8)
    for x in tensors:
        program.session.free(x, 10)
    for _ in tensors:
        program.write(HOME, program.allocate(HOME, 12), 13)
    pending = program.session.collector._pending_findings.values()
    assert len([one for one in pending if one.rule.code == "SYN201"]) <= 4
    (finding,) = (f for f in program.report().findings if f.rule.code == "SYN201")
    assert finding.count == len(tensors)


def test_memory_that_an_earlier_capture_allocated_is_not_reused_in_the_next(program):
    session = program.session
    session.capture_begin(1, HOME, 1)
    x = used_on_side_stream(program)
    session.wait_stream(HOME, SIDE, 9)
    session.free(x, 10)
    y = program.allocate(HOME, 11)
    session.capture_end(1)
    session.capture_begin(2, HOME, 12)
    program.write(HOME, y, 13)
    session.capture_end(2)
    assert codes(program) == []
