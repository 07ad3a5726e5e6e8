"""Texts of findings other than races."""

from syncheck.hb.cells import AccessRecord
from syncheck.hb.footprint import dense
from syncheck.hb.ids import NamedKind, ObjectKind
from syncheck.hb.memory import FreedAccess
from syncheck.sanitizer import misuse
from syncheck.sanitizer.labels import Label
from syncheck.sanitizer.messages import StreamInfo, View
from tests.unit.sanitizer.program import Text, new_collector

USE = Label(20, "aten::sum")


def worded(pending, sites=None):
    """Return the finding in a context of named streams and a named tensor."""
    collector = new_collector()
    names = collector.names
    names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 7, 3), 3: StreamInfo(1, 8, 3), 4: StreamInfo(0, 9, 3)}
    names.given |= {(NamedKind.STREAM, 2): "side", (NamedKind.STREAM, 3): "far", (NamedKind.ALLOCATION, 9): "x"}
    names.views.append(View((4,), 4, "float32"))
    collector.add(pending)
    (finding,) = collector.findings(sites or Text())
    return finding


def freed():
    use = AccessRecord(2, 4096 | 2, 5, dense(0, 16), is_write=False)
    return FreedAccess(9, 1, use, 6, 7, 16)


def test_memory_freed_too_early_is_blamed_at_its_use():
    finding = worded(misuse.reuse(freed(), 0, USE, (10, 30, 40), StreamInfo(0, 7, 3)))
    assert (finding.rule.code, finding.location.frame.line) == ("SYN201", 20)
    assert [location.frame.line for location in finding.related] == [30, 10, 40]
    assert finding.message == "`x` (4 float32, 16 bytes) may be reused while stream `side` (cuda:0) is still reading it"
    assert [location.message for location in finding.related] == [
        "freed here", "allocated here, on the default stream of cuda:0", "this allocation may reuse its memory",
    ]  # fmt: skip
    assert ".record_stream(" in finding.help
    assert "wait for stream `side` (cuda:0) before the tensor is freed" in finding.help


def test_a_stream_of_torch_has_no_object_to_record():
    finding = worded(misuse.reuse(freed(), 0, USE, (10, 30, 40), StreamInfo(0, 7, 0)))
    assert finding.fix is None
    assert "record_stream" not in finding.help
    assert finding.help.startswith("let the default stream")


def test_a_use_on_the_default_stream_records_the_current_stream():
    use = AccessRecord(1, 4096 | 1, 5, dense(0, 16), is_write=False)
    finding = worded(misuse.reuse(FreedAccess(9, 2, use, 6, 7, 16), 0, USE, (10, 30, 40), StreamInfo(0, 0, 0)))
    assert ".record_stream(torch.cuda.current_stream())" in finding.fix.edits[0].code


def test_a_use_on_an_unnamed_stream_records_the_current_stream():
    use = AccessRecord(4, 4096 | 4, 5, dense(0, 16), is_write=False)
    pending = misuse.reuse(FreedAccess(9, 1, use, 6, 7, 16), 0, USE, (10, 30, 40), StreamInfo(0, 9, 3))
    assert worded(pending).fix.edits[0].code == "<tensor>.record_stream(torch.cuda.current_stream())"


def test_a_useless_record_is_about_its_call():
    pending = misuse.useless_record(9, 0, 20, ("it names the stream that the tensor was allocated on",), (10,))
    assert pending.is_about_call
    finding = worded(pending)
    assert (finding.rule.code, finding.help) == ("SYN202", "remove the call at line 20")
    assert "`x` (4 float32, 16 bytes)" in finding.message


def test_work_on_another_device_names_the_right_device():
    finding = worded(misuse.mismatch("aten::mul", 0, 3, 20, 10))
    assert (finding.rule.code, finding.location.frame.line, finding.related[0].frame.line) == ("SYN501", 20, 10)
    assert "mul" in finding.message
    assert "aten::" not in finding.message
    assert "torch.cuda.Stream(device=0)" in finding.help


def test_a_pageable_copy_is_blamed_at_the_copy():
    finding = worded(misuse.pageable(9, 0, 20))
    assert (finding.rule.code, finding.location.frame.line) == ("SYN303", 20)
    assert "at line 20" in finding.help


def test_objects_created_in_a_loop_are_named():
    assert "stream" in worded(misuse.created_in_loop(ObjectKind.STREAM, 20)).message
    assert "timing event" in worded(misuse.created_in_loop(ObjectKind.TIMING_EVENT, 20)).message


def test_a_lost_context_is_fixed_by_setting_the_stream_in_the_thread():
    finding = worded(misuse.lost_context(1, 2, 20))
    assert finding.rule.code == "SYN503"
    assert str(finding.fix.applicability) == "example"
    assert finding.fix.edits[0].code.startswith("torch.cuda.set_stream(")


def test_a_lost_device_is_fixed_by_setting_the_device_in_the_thread():
    finding = worded(misuse.lost_context(1, 2, 20, device=1))
    assert finding.help == "for example, add `torch.cuda.set_device(1)` before line 20, in the thread"


def test_every_rule_worded_here_is_listed():
    pending = [
        misuse.reuse(freed(), 0, USE, (10, 30, 40), StreamInfo(0, 7, 3)),
        misuse.useless_record(9, 0, 20, ("",), ()),
        misuse.mismatch("aten::mul", 0, 3, 20, 10),
        misuse.pageable(9, 0, 20),
        misuse.created_in_loop(ObjectKind.STREAM, 20),
        misuse.lost_context(1, 2, 20),
    ]
    assert {made.rule.code for made in pending} == {rule.code for rule in misuse.RULES}


def test_one_tensor_freed_again_at_one_place_is_one_finding():
    collector = new_collector()
    names = collector.names
    names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 7, 3)}
    names.given |= dict.fromkeys([(NamedKind.ALLOCATION, 9), (NamedKind.ALLOCATION, 8)], "x")
    names.views.append(View((4,), 4, "float32"))
    for allocation in (9, 8):
        use = AccessRecord(2, 4096 | 2, 5, dense(0, 16), is_write=False)
        freed = FreedAccess(allocation, 1, use, 6, 7, 16)
        collector.add(misuse.reuse(freed, 0, USE, (10 + allocation, 30, 40), StreamInfo(0, 7, 3)), allocation)
    (found,) = collector.findings(Text())
    assert found.count == 2
    assert len(found.fix.edits) == 1
    assert not [location for location in found.related if "too" in location.message]
