"""Each rule and idiom from plain monitor calls in a few lines, without torch."""

import pytest

from syncheck.findings import EditKind, Frame, Location
from syncheck.hb.ids import NamedKind, ObjectKind
from syncheck.sanitizer.session import Session
from tests.unit.sanitizer.program import Program


def test_a_read_without_a_wait_is_reported_with_both_places():
    program = Program()
    x = program.allocate(1)
    program.write(1, x, 10)
    program.read(2, x, 20)
    (finding,) = program.report().findings
    assert (finding.rule.code, finding.location.frame.line) == ("SYN101", 20)
    assert [location.frame.line for location in finding.related] == [10]
    assert "wait_stream" in finding.help


def test_one_missing_edge_is_one_finding_for_any_number_of_tensors():
    program = Program()
    tensors = [program.allocate(1) for _ in range(5)]
    for x in tensors:
        program.write(1, x, 10)
    for line, x in enumerate(tensors, 20):
        program.read(2, x, line)
    assert program.found() == [("SYN101", 20)]


def test_the_same_race_in_a_loop_is_one_finding_with_a_count():
    program = Program()
    x = program.allocate(1)
    for _ in range(4):
        program.write(1, x, 10)
        program.read(2, x, 20)
        program.session.wait_stream(1, 2, 30)
    (finding,) = (f for f in program.report().findings if f.rule.code == "SYN101")
    assert finding.count == 4


def test_an_overwrite_of_memory_still_read_is_syn102():
    program = Program()
    x = program.allocate(1)
    program.write(1, x, 5)
    program.session.wait_stream(2, 1, 6)
    program.read(2, x, 10)
    program.write(1, x, 20)
    assert program.found() == [("SYN102", 20)]


def test_two_unordered_writes_are_syn103():
    program = Program(3)
    x = program.allocate(1)
    program.session.sync_device(0, 1)
    program.write(2, x, 10)
    program.write(3, x, 20)
    assert program.found() == [("SYN103", 20)]


def test_a_first_use_before_the_allocating_stream_is_waited_for_is_syn104():
    program = Program()
    other = program.allocate(1)
    program.write(1, other, 5)
    x = program.allocate(1, line=8)
    program.write(2, x, 10)
    assert program.found() == [("SYN104", 10)]


def test_a_host_read_of_a_copy_in_flight_is_syn301_unless_synchronized():
    for is_synced, expected in ((False, [("SYN301", 20)]), (True, [])):
        program = Program()
        h = program.allocate(0)
        program.write(1, h, 10)
        if is_synced:
            program.session.sync_stream(1, 15, explicit=True)
        program.host(h, 20)
        assert program.found() == expected


def test_an_escape_of_a_buffer_in_flight_is_a_warning():
    program = Program()
    h = program.allocate(0)
    program.write(1, h, 10)
    program.host(h, 20, escape=True)
    (finding,) = program.report().findings
    assert (finding.rule.code, finding.level) == ("SYN301", "warning")


def test_a_host_write_to_a_buffer_being_copied_is_syn302():
    program = Program()
    h = program.allocate(0)
    program.read(1, h, 10)
    program.host(h, 20, is_write=True)
    assert program.found() == [("SYN302", 20)]


def test_an_event_wait_mistaken_for_a_host_wait_is_blamed_at_the_wait():
    program = Program()
    h, done = program.allocate(0), program.event()
    program.write(1, h, 10)
    program.session.record(done, 1, 11)
    program.session.wait(done, 1, 12, "event")
    program.host(h, 20)
    assert program.found() == [("SYN402", 12)]


def test_an_event_wait_that_serves_another_stream_is_not_blamed():
    program = Program()
    h, x, done = program.allocate(0), program.allocate(1), program.event()
    program.write(1, x, 9)
    program.write(1, h, 10)
    program.session.record(done, 1, 11)
    program.session.wait(done, 2, 12, "event")
    program.read(2, x, 13)
    program.host(h, 20)
    assert program.found() == [("SYN301", 20)]


def test_synchronizing_another_device_is_blamed_at_the_synchronize():
    program = Program(streams=2, devices=2)
    h = program.allocate(0)
    program.write(2, h, 10)
    program.session.sync_device(0, 15)
    program.host(h, 20)
    assert program.found() == [("SYN502", 15)]


@pytest.mark.parametrize(("is_joined", "repair"), [(False, "insert-before"), (True, "replace-call")])
def test_a_synchronize_that_its_own_device_needs_is_not_replaced(is_joined, repair):
    program = Program(streams=2, devices=2)
    h = program.allocate(0)
    program.write(1, program.allocate(1), 9)
    if is_joined:
        program.session.wait_stream(2, 1, 10)
    program.write(2, h, 11)
    program.session.sync_device(0, 15)
    program.host(h, 20)
    (finding,) = program.report().findings
    assert [str(edit.kind) for edit in finding.fix.edits] == [repair]


def test_a_wait_before_the_record_is_syn401():
    program = Program()
    done = program.event()
    program.session.wait(done, 2, 10, "event")
    assert program.found() == [("SYN401", 10)]


def test_the_first_iteration_of_a_ring_of_events_may_wait_for_nothing():
    program = Program()
    done = program.event()
    x = program.allocate(1)
    for _ in range(3):
        program.session.wait(done, 2, 10, "event")
        program.write(1, x, 11)
        program.session.record(done, 1, 12)
        program.session.wait_stream(1, 2, 13)
    assert [code for code, _ in program.found() if code != "SYN802"] == []


def test_a_lost_record_is_blamed_where_it_was_lost():
    program = Program(3)
    x, done = program.allocate(1), program.event()
    program.session.sync_device(0, 1)
    program.write(2, x, 10)
    program.session.record(done, 2, 11)
    program.session.record(done, 3, 12)
    program.session.wait(done, 1, 13, "event")
    program.read(1, x, 20)
    assert ("SYN405", 12) in program.found()


def test_a_wait_that_uses_a_stale_stream_lookup_is_syn406():
    program = Program(3)
    x = program.allocate(2)
    program.write(2, x, 10)
    program.session.wait_stream(3, 1, 15, ("", "default_stream"), current=2)
    program.read(3, x, 20)
    assert ("SYN406", 15) in program.found()


def test_elapsed_time_without_timing_or_sync_is_reported():
    for timing, synced, expected in ((False, True, "SYN403"), (True, False, "SYN404"), (True, True, None)):
        program = Program()
        start, end = program.event(timing=timing), program.event(timing=timing)
        x = program.allocate(1)
        program.session.record(start, 1, 10)
        program.write(1, x, 11)
        program.session.record(end, 1, 12)
        if synced:
            program.session.sync_event(end, 13)
        program.session.elapsed(start, end, 14)
        assert [code for code, _ in program.found()] == ([expected] if expected else [])


def test_timing_an_idle_stream_is_syn702():
    program = Program()
    start, end, x = program.event(timing=True), program.event(timing=True), program.allocate(2)
    program.session.record(start, 1, 10)
    program.write(2, x, 11)
    program.session.record(end, 1, 12)
    program.session.sync_device(0, 13)
    program.session.elapsed(start, end, 14)
    assert program.found() == [("SYN702", 12)]


@pytest.mark.parametrize(("line_of_sync", "expected"), [(None, [("SYN701", 13)]), (12, [])])
def test_a_clock_difference_over_running_work_is_syn701(line_of_sync, expected):
    program = Program()
    x = program.allocate(1)
    program.session.clock(1, 10)
    program.write(1, x, 11)
    if line_of_sync:
        program.session.sync_device(0, line_of_sync)
    program.session.clock(2, 13)
    program.session.clock_difference(1, 2)
    assert program.found() == expected


def test_a_steady_loop_that_reads_its_loss_may_be_timed():
    program = Program()
    x = program.allocate(1)
    program.session.clock(0, 9)
    for turn in range(1, 5):
        program.write(1, x, 10)
        program.session.sync_stream(1, 11, explicit=False)
        program.write(1, x, 12)
        program.session.clock(turn, 13)
        if turn > 1:
            program.session.clock_difference(turn - 1, turn)
    assert program.found() == []


def test_freed_memory_still_in_use_is_syn201_only_if_it_may_be_reused():
    for allocates_again, expected in ((True, [("SYN201", 10)]), (False, [])):
        program = Program()
        x = program.allocate(2, line=5)
        program.session.wait_stream(1, 2, 6)
        program.read(1, x, 10)
        program.session.free(x, 12)
        if allocates_again:
            program.allocate(2, line=14)
        assert [f for f in program.found() if f[0] != "SYN802"] == expected


def test_record_stream_fixes_a_reuse_but_is_useless_for_the_own_stream():
    for named, expected in ((1, []), (2, ["SYN201"])):
        program = Program()
        x = program.allocate(2, line=5)
        program.write(2, x, 5)
        program.session.wait_stream(1, 2, 6)
        program.read(1, x, 10)
        program.session.record_stream(x, program.view, named, 11)
        program.session.free(x, 12)
        program.allocate(2, line=14)
        assert [code for code, _ in program.found()] == expected


def test_a_record_stream_that_helps_another_tensor_is_not_useless():
    program = Program()
    kept = [program.allocate(home, line=5) for home in (1, 2)]
    program.write(1, kept[0], 5)
    program.session.wait_stream(2, 1, 6)
    program.read(2, kept[0], 10)
    for x in kept:
        program.session.record_stream(x, program.view, 2, 11)  # needed by the first tensor; the second one's own stream
    for x in kept:
        program.session.free(x, 12)
    program.allocate(1, line=14)
    assert program.found() == []


def test_record_stream_before_a_join_only_delays_the_free():
    program = Program()
    x = program.allocate(2, line=5)
    program.write(2, x, 5)
    program.session.wait_stream(1, 2, 6)
    program.read(1, x, 10)
    program.session.record_stream(x, program.view, 1, 11)
    program.session.wait_stream(2, 1, 12)
    program.session.free(x, 13)
    assert program.found() == [("SYN202", 11)]


@pytest.mark.parametrize(
    ("caller", "found"),
    [
        (Frame("torch/distributed/fsdp/_runtime_utils.py", 1, is_user=False), []),
        (Frame("lightning/strategy.py", 1, is_user=False), [("SYN202", 11)]),
    ],
)
def test_a_record_stream_called_by_torch_is_not_reported(monkeypatch, caller, found):
    program = Program()
    x = program.allocate(2, line=5)
    program.session.record_stream(x, program.view, 2, 11)
    at = program.location
    monkeypatch.setattr(program, "location", lambda site: Location(at(site).frame, stack=(caller, at(site).frame)))
    assert program.found() == found


def test_a_record_stream_made_by_cpp_code_is_not_reported():
    program = Program()
    x = program.allocate(2, line=5)
    program.session.record_stream(x, program.view, 2, 0)
    program.session.free(x, 13)
    assert program.found() == []


def test_a_wait_that_never_adds_order_is_syn802():
    program = Program()
    x = program.allocate(1)
    program.write(1, x, 10)
    program.session.wait_stream(2, 1, 11)
    program.session.wait_stream(2, 1, 12)
    program.read(2, x, 13)
    assert program.found() == [("SYN802", 12)]
    (finding,) = program.report().findings
    assert finding.message == "redundant wait: already ordered by the wait at line 11"


def test_a_replay_unordered_with_an_overwrite_of_its_input_is_syn903():
    program = Program(3)
    x = program.allocate(1)
    program.write(1, x, 3)
    program.session.sync_device(0, 4)
    program.session.capture_begin(1, 2, 5)
    program.read(2, x, 6)
    assert program.session.capture_end(1) == ()
    program.session.replay(1, 1, 10)
    program.write(3, x, 20)
    assert program.found() == [("SYN903", 20)]


def replayed_on_two_streams(*graphs):
    """Capture two graphs that write one tensor; replay some on stream 1, then on stream 3; return the program."""
    program = Program(3)
    x = program.allocate(1)
    program.write(1, x, 3)
    program.session.sync_device(0, 4)
    for graph in (1, 2):
        program.session.capture_begin(graph, 2, 5)
        program.write(2, x, 6)
        program.session.capture_end(graph)
    for stream, graph in zip((1, 3), graphs, strict=True):
        program.session.replay(graph, stream, 10 * stream)
    return program, x


def test_replays_of_one_graph_are_ordered():
    program, x = replayed_on_two_streams(1, 1)
    program.read(3, x, 40)
    assert program.found() == []
    program.read(1, x, 50)
    assert program.found() == [("SYN903", 50)]


def test_replays_of_different_graphs_are_not_ordered():
    program, _ = replayed_on_two_streams(1, 2)
    assert program.found() == [("SYN903", 30)]


def test_a_replay_that_uses_freed_memory_is_syn904():
    program = Program()
    x = program.allocate(1)
    program.session.capture_begin(1, 2, 5)
    program.read(2, x, 6)
    program.session.capture_end(1)
    program.session.free(x, 8)
    program.session.replay(1, 1, 10)
    assert program.found() == [("SYN904", 10)]


def test_capture_end_returns_the_streams_that_were_not_joined():
    program = Program(3)
    x, y = program.allocate(1), program.allocate(1)
    program.session.capture_begin(1, 2, 5)
    program.read(2, x, 6)
    program.session.wait_stream(3, 2, 7)
    program.write(3, y, 8)
    assert program.session.capture_end(1) == (3,)


def test_streams_recreated_in_a_loop_are_syn805_but_a_list_of_streams_is_not():
    program = Program()
    for turn in range(4):
        program.session.object_created("stream", turn, 10)
        if turn:
            program.session.object_destroyed("stream", turn - 1)
    for index in range(8):
        program.session.object_created("stream", 50 + index, 20)
    assert program.found() == [("SYN805", 10)]


def test_unselected_rules_are_not_reported():
    program = Program()
    program.session = Session(lambda rule: rule.code != "SYN101", "no GPU")
    for stream in (1, 2):
        program.session.stream(stream, 0, stream - 1, 0, legacy=stream == 1, blocking=False)
    program.view = program.session.view(0, (1024,), (1,), 4, "float32")
    x = program.allocate(1)
    program.write(1, x, 10)
    program.read(2, x, 20)
    assert program.found() == []


def test_a_stream_that_appears_during_a_capture_can_be_forked_and_joined():
    program = Program()
    program.session.capture_begin(1, 2, 5)
    program.session.stream(3, 0, 7, 0, legacy=False, blocking=False)
    program.session.wait_stream(3, 2, 6)
    x = program.allocate(3)
    program.write(3, x, 7)
    program.session.wait_stream(2, 3, 8)
    assert program.session.capture_end(1) == ()


@pytest.mark.parametrize("waits", ["event", "stream"])
def test_waiting_for_outside_work_during_a_capture_orders_nothing(waits):
    program = Program(3)
    x, done = program.allocate(1), program.event()
    program.session.sync_device(0, 1)
    program.write(3, x, 2)
    program.session.record(done, 3, 3)
    program.session.capture_begin(1, 2, 4)
    if waits == "event":
        program.session.wait(done, 2, 5, "stream")
    else:
        program.session.wait_stream(2, 3, 5)
    program.session.capture_end(1)
    program.read(2, x, 6)
    assert program.found() == [("SYN101", 6)]


def test_a_race_after_a_wait_without_effect_refers_to_that_wait():
    program = Program()
    recorded, forgotten = program.event(), program.event()
    for event in (recorded, forgotten):  # a ring of events, one of which is never recorded
        x = program.allocate(2)
        program.write(2, x, 10)
        if event is recorded:
            program.session.record(event, 2, 11)
        program.session.wait(event, 1, 12, "stream")
        program.read(1, x, 13)
    (finding,) = program.report().findings
    assert (finding.rule.code, finding.location.frame.line) == ("SYN101", 13)
    (message,) = [location.message for location in finding.related if location.frame.line == 12]
    assert "SYN401" in message
    assert "had not been recorded yet" in message
    assert ".record()" in finding.help
    assert "wait" not in finding.help
    (pending,) = [p for p in program.session.collector._pending_findings.values() if p.rule.code == "SYN101"]
    choices = [
        "".join(part for part in choice.edits[0].code if isinstance(part, str)) for choice in pending.fix.choices()
    ]
    one, each = ".wait_stream()", "[.wait_stream(each) for each in ]"
    assert choices == [".record()", one, each, one]  # alternatives for when the event has no usable name


@pytest.mark.parametrize("waits", [False, True])
def test_a_replay_waits_for_external_events_that_its_capture_waited_for(waits):
    program = Program()
    x = program.allocate(1)
    ready = program.new_id()
    program.session.event(ready, 0, timing=False, external=True)
    program.session.capture_begin(1, 1, 10)
    if waits:
        program.session.wait(ready, 1, 11, "event")
    program.read(1, x, 12)
    program.session.capture_end(1)
    program.session.wait_stream(2, 1, 19)
    program.write(2, x, 20)
    program.session.record(ready, 2, 21)
    program.session.replay(1, 1, 22)
    assert ("SYN903" in {code for code, _ in program.found()}) is not waits


def test_a_replay_records_external_events_that_its_capture_recorded():
    program = Program()
    x = program.allocate(1)
    done = program.new_id()
    program.session.event(done, 0, timing=False, external=True)
    program.session.capture_begin(1, 1, 10)
    program.write(1, x, 11)
    program.session.record(done, 1, 12)
    program.session.capture_end(1)
    program.session.replay(1, 1, 20)
    program.session.wait(done, 2, 21, "event")
    program.read(2, x, 22)
    assert program.found() == []


def test_a_stream_keeps_the_name_of_its_first_live_object():
    program = Program()
    session, names = program.session, program.session.collector.names
    session.name(NamedKind.STREAM, 2, "side")
    session.stream_object(1, 2, 30)
    session.name(NamedKind.STREAM, 2, "keep[31]")
    session.stream_object(2, 2, 31)
    assert names.given[NamedKind.STREAM, 2] == "side"
    session.object_destroyed(ObjectKind.STREAM, 1)
    session.object_destroyed(ObjectKind.STREAM, 2)
    session.name(NamedKind.STREAM, 2, "other")
    assert names.given[NamedKind.STREAM, 2] == "other"


def test_the_fix_shows_where_an_unrecorded_event_should_be_recorded():
    program = Program()
    event = program.event()
    program.session.name(NamedKind.EVENT, event, "done")
    x = program.allocate(2)
    program.write(2, x, 10)
    program.session.wait(event, 1, 12, "stream")
    program.read(1, x, 13)
    (finding,) = program.report().findings
    assert finding.rule.code == "SYN401"
    assert "before line 12" in finding.help  # without a file to edit, the fix is only described
    (pending,) = [p for p in program.session.collector._pending_findings.values() if p.rule.code == "SYN401"]
    assert [(edit.kind, edit.site) for edit in pending.fix.edits] == [(EditKind.INSERT_AFTER, 10)]
