"""Model of the GPUs for static analysis."""

import ast

from syncheck.hb.ids import StreamOrigin, WaitCall
from syncheck.lint.interp.collectives import follow_on_host
from syncheck.lint.interp.machine import UNKNOWN_POOL
from syncheck.lint.interp.values import UNKNOWN_STREAM, WHOLE, Stream, Tensor
from tests.unit.lint.program import new_program

NODE = ast.parse("f()", mode="eval").body


def tensor(machine, device=0, part=WHOLE):
    return Tensor(machine.allocate(device, NODE), part)


def test_each_device_has_a_default_stream(machine):
    assert [machine.device_of(machine.default_stream(device)) for device in range(3)] == [0, 1, 2]
    assert machine.handle_of(machine.default_stream(0)) == 0
    assert machine.current(1) == machine.default_stream(1)


def test_a_new_stream_has_a_device_a_handle_and_within_a_loop_a_lifetime(machine):
    stream = machine.new_stream(1, NODE)
    assert machine.device_of(stream.ident) == stream.device == 1
    assert machine.handle_of(stream.ident) != 0
    assert stream.life is None
    with machine.loops.iterating(ast.Pass(lineno=1, col_offset=0)):
        assert machine.new_stream(1, NODE).life is not None
    assert machine.n_relevant == 2
    with machine.loops.iterating(ast.Pass(lineno=1, col_offset=0)):
        assert machine.new_stream(1, NODE, is_made=False).life is None


def test_waits_report_how_streams_were_obtained(machine, program):
    side = machine.new_stream(0, NODE)
    machine.wait_stream(side, Stream(machine.current(0), 0, StreamOrigin.CURRENT), NODE)
    machine.join(side.ident, machine.current(0))
    machine.join(side.ident, side.ident)
    assert program.calls == ["wait s1 for cuda:0 (current_stream)", "wait s1 for cuda:0 (torch)"]


def test_with_an_unknown_stream_all_work_is_assumed_complete(machine, program):
    unknown, event = Stream(UNKNOWN_STREAM, 0), machine.new_event(NODE, timing=False)
    machine.wait_stream(unknown, machine.new_stream(0, NODE), NODE)
    machine.sync_stream(UNKNOWN_STREAM, NODE, explicit=True)
    machine.wait(event, unknown, WaitCall.EVENT_WAIT, NODE)
    assert program.calls == ["all complete"] * 3
    machine.record(event, unknown, NODE)
    assert event.escaped


def test_events_are_recorded_and_waited_for(machine, program):
    event = machine.new_event(NODE, timing=True)
    machine.record(event, None, NODE)
    machine.wait(event, machine.new_stream(1, NODE), WaitCall.STREAM_WAIT_EVENT, NODE)
    machine.sync_event(event, NODE)
    assert program.calls == ["record e1 on cuda:0", "wait s1 for e1 (stream)", "sync e1"]
    event.escaped = True
    machine.sync_event(event, NODE)
    machine.record(event, None, NODE)
    assert program.calls[3:] == ["all complete"]


def test_the_host_may_not_wait_during_a_capture(machine, program):
    machine.session.capture_begin(1, machine.current(0), 0)
    machine.sync_device(0, NODE)
    machine.sync_stream(machine.current(0), NODE, explicit=False)
    machine.sync_event(machine.new_event(NODE, timing=False), NODE)
    assert program.calls[1:] == ["refused torch.cuda.synchronize()", "refused f()", "refused Event.synchronize()"]


def test_host_memory_is_tracked_if_it_is_pinned(machine, program):
    pageable = machine.allocate(None, NODE)
    pinned = machine.allocate(None, NODE, is_pinned=True)
    assert (pageable.ident, pinned.is_pinned) == (0, True)
    assert program.calls == ["allocate 1 on host"]
    follow_on_host(machine, pageable)
    assert pageable.ident
    assert program.calls[1:] == ["allocate 2 on host"]


def test_memory_on_an_unknown_stream_has_an_unknown_pool(machine, monkeypatch):
    pools, session = [], machine.session._session
    allocate = session.allocate
    monkeypatch.setattr(session, "allocate", lambda *args: (pools.append(args[3]), allocate(*args)))
    machine.thread.streams = {0: UNKNOWN_STREAM}
    assert machine.allocate(0, NODE).escaped
    assert pools == [UNKNOWN_POOL]


def test_released_memory_is_freed_even_if_tensors_refer_to_it(machine, program):
    x = tensor(machine)
    machine.release(x.block)
    assert program.calls == ["allocate 1 on cuda:0", "free 1"]
    machine.launch(machine.current(0), "aten::add", [(x, True)], NODE)
    assert program.calls[2:] == ["launch cuda:0 add"]
    del x
    assert len(program.calls) == 3


def test_a_write_subsumes_a_read_of_the_same_part(machine):
    x = tensor(machine)
    assert [write for *_, write in machine.accesses([(x, False), (x, True)])] == [True]
    assert [write for *_, write in machine.accesses([(x, True), (x, False)])] == [True]
    row = Tensor(x.block, (0, 1))
    assert len(machine.accesses([(x, False), (row, True)])) == 2


def test_unknown_parts_may_be_distinct(machine):
    x = tensor(machine, part=None)
    first, second = machine.view(None, is_write=True), machine.view(None, is_write=True)
    assert first != second
    assert machine.view(None, is_write=False) == machine.view(None, is_write=False)
    assert machine.view((0, 1), is_write=True) != machine.view((1, 2), is_write=True)
    assert machine.accesses([(x, True)]) != machine.accesses([(x, True)])


def test_work_on_an_unknown_stream_makes_its_outputs_unknown(machine, program):
    x, y = tensor(machine), tensor(machine)
    machine.launch(UNKNOWN_STREAM, "aten::add", [(x, False), (y, True)], NODE)
    assert [x.block.escaped, y.block.escaped] == [False, True]
    assert len(program.calls) == 2


def test_an_ordering_only_branch_accesses_no_memory(machine, program):
    x = tensor(machine)
    machine.ordering_only = 1
    machine.launch(machine.current(0), "aten::add", [(x, True)], NODE)
    machine.touch_host("aten::item", [(x, False)], NODE)
    machine.read_clock(NODE)
    assert machine.allocate(0, NODE).ident == 0
    assert machine.life("stream", 0) is None
    assert program.calls == ["allocate 1 on cuda:0"]
    machine.sync_device(0, NODE)
    assert program.calls[1:] == ["sync device 0"]


def test_an_omitted_device_is_recorded(machine):
    assert not machine.thread.implicit_device
    assert machine.device == 0
    assert machine.thread.implicit_device


def test_computing_streams_are_tracked(machine):
    machine.launch(machine.current(0), "aten::copy_", [], NODE)
    assert machine.computing == set()
    machine.launch(machine.current(0), "aten::mm", [], NODE)
    assert machine.computing == {machine.current(0)}


def test_a_finding_keeps_the_calls_that_led_to_it(machine):
    machine.calls = [(ast.parse("outer()"), "main")]
    machine.session.pageable_copy(1, -1, machine.site(NODE))
    assert machine.sites.callers[machine.site(NODE)][0][1] == "main"
    assert len(machine.findings) == 1


def test_new_objects_are_named_by_their_assignment_target():
    program = new_program("done = f()\nevents = [f() for _ in range(2)]")
    for statement in program.tree.body:
        made = next(node for node in ast.walk(statement) if isinstance(node, ast.Call) and ast.unparse(node) == "f()")
        program.machine.name_new("event", made.lineno, made)
    assert program.recording.names == {("event", 1): "done"}
