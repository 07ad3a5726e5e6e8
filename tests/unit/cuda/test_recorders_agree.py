"""Unusual memory lifetimes: both recorders report the same findings.

CPU tensors stand in for tensors of `cuda:0`, as in the tests of the mode.
"""

import gc
import os
import random

import pytest
import torch

from syncheck.cuda.memory import UNKNOWN_POOL
from syncheck.cuda.trace_handlers import TraceHandlers
from syncheck.cuda.waiting_calls import WaitingCalls
from syncheck.hb.ids import WaitCall
from tests.unit.conftest import watched_gpu


@pytest.fixture(params=["python", "native"])
def gpu(request, on_cpu, recorder):
    with watched_gpu(on_cpu, extension=recorder if request.param == "native" else None) as watched:
        make_plans()
        yield watched


def make_plans():
    """Run each operator once: the first call always goes to the mode."""
    x = torch.zeros(4)
    x.neg_().relu_().fill_(1)
    torch.nonzero(torch.ones(4))


def codes(gpu):
    report = gpu.report()
    assert report.incomplete == ()
    return sorted(finding.rule.code for finding in report.findings if finding.rule.code != "SYN801")


def call(gpu, name, *args, **kwargs):
    with gpu.cuda.reporter.locked_monitor() as monitor:
        getattr(monitor, name)(*args, **kwargs)


class Cycle:
    def __init__(self, held):
        self.held, self.me = held, self


def test_tensors_freed_by_the_garbage_collector_are_freed_in_order(gpu):
    gpu.cuda.streams.of(0, 7)
    w = torch.ones(4)
    gc.collect()
    for _ in range(60):
        x = torch.ones(4)
        assert gpu.cuda.memory.allocation_of(x)
        gpu.cuda.flush_calls()
        kept = [torch.ones(4).neg_() for _ in range(400)]
        x.relu_()
        Cycle(x)
        del x
        torch.nonzero(w)
    assert kept
    assert gpu.cuda.reporter.is_checking
    assert codes(gpu) == []


def test_a_storage_resized_to_the_same_address_is_a_new_block(gpu):
    gpu.cuda.streams.of(0, 7)
    a = torch.ones(1 << 20)
    assert gpu.cuda.memory.allocation_of(a)
    storage, is_same = a.untyped_storage(), False
    for _ in range(20):
        a.neg_()
        address, n_bytes = storage.data_ptr(), storage.nbytes()
        storage.resize_(0)
        gpu.cuda.memory.freed(address)  # as the resize_ hook does for a storage on a GPU
        storage.resize_(n_bytes)
        is_same |= storage.data_ptr() == address
    a.neg_()
    assert is_same
    assert codes(gpu) == []


def test_two_storages_at_one_address_are_one_block(gpu):
    gpu.cuda.streams.of(0, 7)
    a = torch.zeros(4)
    a.neg_()
    b = torch.from_dlpack(a)
    gpu.current.handle = 7
    b.relu_()
    assert codes(gpu) == ["SYN103"]


def test_new_memory_at_an_address_vacated_by_a_resize_is_tracked(gpu):
    gpu.cuda.streams.of(0, 7)
    olds = [torch.zeros(1000) for _ in range(200)]
    assert all(gpu.cuda.memory.allocation_of(old) for old in olds)
    call(gpu, "sync_device", 0, 0)
    left = {old.data_ptr() for old in olds}
    for old in olds:
        old.resize_(100_000)
    news = [torch.zeros(1000) for _ in range(400)]
    moved_in = next(new for new in news if new.data_ptr() in left)
    gpu.current.handle = 7
    moved_in.neg_()
    assert codes(gpu) == ["SYN103"]


def captured(gpu):
    """Capture a graph on a side stream; return the tensor that it writes."""
    side = gpu.cuda.streams.of(0, 7)
    gpu.current.handle = 7
    x = torch.zeros(64)
    gpu.cuda.captures.begin()
    call(gpu, "capture_begin", 1, side, gpu.cuda.reporter.site())
    x.neg_()
    gpu.cuda.captures.end()
    call(gpu, "capture_end", 1)
    return x


def test_reusing_memory_of_a_graph_replayed_on_another_stream_is_found(gpu):
    x = captured(gpu)
    call(gpu, "sync_device", 0, 0)
    call(gpu, "replay", 1, gpu.cuda.streams.of(0, 0), gpu.cuda.reporter.site())
    del x
    for _ in range(30):
        torch.zeros(64).neg_()
    assert codes(gpu) == ["SYN201"]


def test_writing_memory_of_a_graph_during_its_replay_is_found(gpu):
    x = captured(gpu)
    call(gpu, "sync_device", 0, 0)
    call(gpu, "replay", 1, gpu.cuda.streams.of(0, 0), gpu.cuda.reporter.site())
    x.relu_()
    del x
    for _ in range(30):
        torch.zeros(128)
    assert codes(gpu) == ["SYN903"]


def test_replaying_a_graph_whose_memory_was_freed_is_found(gpu):
    x = captured(gpu)
    kept = [torch.zeros(4) for _ in range(50)]
    gpu.cuda.flush_calls()
    del x
    call(gpu, "replay", 1, gpu.cuda.streams.of(0, 7), gpu.cuda.reporter.site())
    assert codes(gpu) == ["SYN904"]
    assert kept


def test_a_capture_leaves_no_work_on_its_stream(gpu):
    side = gpu.cuda.streams.of(0, 7)
    gpu.current.handle = 7
    gpu.cuda.captures.begin()
    call(gpu, "capture_begin", 1, side, gpu.cuda.reporter.site())
    for _ in range(9):
        torch.zeros(32)
    gpu.cuda.captures.end()
    call(gpu, "capture_end", 1)
    assert side not in gpu.monitor.session._engine.unfinished()


def test_reusing_memory_in_use_by_another_gpus_default_stream_is_found(gpu):
    other = gpu.cuda.streams.of(1, 0)
    gpu.cuda.streams.used(other)
    a = torch.zeros(64)
    with gpu.cuda.reporter.locked_monitor():
        access = gpu.cuda.memory.access(a, is_write=True)
    gpu.cuda.launches.launch("p2p", other, 1, [access], [a])
    del a
    for _ in range(10):
        torch.zeros(64)
    assert codes(gpu) == ["SYN103", "SYN201"]


@pytest.mark.parametrize("function", [torch.nn.functional.silu, torch.nn.functional.mish])
@pytest.mark.parametrize("is_native", [False, True], ids=["python", "native"])
def test_gradients_come_from_the_devices_own_kernel(function, is_native, on_cpu, recorder):
    def gradient():
        torch.manual_seed(0)
        x = torch.randn(1000).bfloat16().requires_grad_()
        function(x).backward(torch.ones_like(x))
        return x.grad.detach()

    plain = gradient()
    with watched_gpu(on_cpu, extension=recorder if is_native else None):
        gradient()
        assert torch.equal(gradient(), plain)


@pytest.mark.parametrize("is_native", [False, True], ids=["python", "native"])
def test_memory_of_an_earlier_check_is_freed(is_native, on_cpu, recorder):
    extension = recorder if is_native else None
    with watched_gpu(on_cpu, extension=extension) as gpu:
        gpu.cuda.streams.of(0, 7)
        olds = [torch.zeros(4) for _ in range(50)]
        assert all(gpu.cuda.memory.allocation_of(old) for old in olds)
    with watched_gpu(on_cpu, extension=extension) as gpu:
        make_plans()
        gpu.cuda.streams.of(0, 7)
        news = [torch.zeros(4) for _ in range(50)]
        olds.clear()
        call(gpu, "sync_device", 0, 0)
        gpu.current.handle = 7
        for new in news:
            new.neg_()
        unknown = [call for call in gpu.monitor.named("allocate") if call[4] == UNKNOWN_POOL]
        assert unknown == []


def test_a_change_in_an_earlier_check_does_not_affect_the_current_recorder(on_cpu, recorder):
    with watched_gpu(on_cpu, extension=recorder) as earlier:
        make_plans()
    with watched_gpu(on_cpu, extension=recorder) as gpu:
        make_plans()
        n_before = recorder.n_recorded()
        x = torch.ones(4)
        earlier.cuda.reporter.set_checking(value=False)
        earlier.cuda.reporter.flush_calls()
        x.neg_()
        assert recorder.n_recorded() == n_before + 2
        assert [name for name, _ in gpu.monitor.launches()][-2:] == ["aten::ones", "aten::neg_"]


# -- random programs

STREAMS = (0, 7, 8)
N_PROGRAMS = int(os.environ.get("SYNCHECK_AGREE", "30"))


STATEMENTS = """t[{a}].mul_(2)
t[{a}][4:].add_(t[{b}][:4])
t[{a}].copy_(t[{b}])
t[{a}] = torch.empty(8)
t[{a}] = torch.full((8,), 3.0)
t[{a}] = t[{b}] * 2 + 1
t[{a}] = torch.cat([t[{a}][:4], t[{b}][4:]])
w = torch.ones(8, requires_grad=True); (w * t[{a}]).sum().backward(); t[{b}] = w.grad; w = None
torch.nonzero(t[{a}] == t[{a}])
synchronize()
synchronize({stream})
look_at(t[{a}])
record({event}, {stream})
wait({event}, {stream})
follow({stream}, {other})
follow({stream}, {other})
record_stream(t[{a}], {stream})""".splitlines()


def random_program(rng):
    """Return the text of a program that creates, uses, rebinds, copies and frees tensors on three streams."""
    lines = ["t = [torch.full((8,), value) for value in (5.0, 6.0, 7.0)]"]
    for _ in range(rng.randrange(6, 24)):
        values = {"a": rng.randrange(3), "b": rng.randrange(3), "event": rng.randrange(2), "other": rng.choice(STREAMS)}
        statement = rng.choice(STATEMENTS).format(stream=rng.choice(STREAMS), **values)
        lines.append(f"on({rng.choice(STREAMS)}); {statement}")
    return "\n".join([*lines, "on(0); out = sum(x.sum() for x in t)"])


def synchronizer(cuda):
    """Return a function that waits for the stream with a handle, or for the device, as torch reports it."""
    handlers = TraceHandlers(cuda.reporter, cuda.streams, cuda.events, cuda.host, cuda.pending_callbacks, cuda.captures)

    def synchronize(stream=None):
        handlers._device_synchronized() if stream is None else handlers._stream_synchronized(stream)

    return synchronize


def findings_of(text, current, extension, times=2):
    """Run a program several times, the first to create plans of its operators; return its findings."""
    with watched_gpu(current, extension=extension) as gpu:
        gpu.cuda.reporter.call_buffer.condenses = True
        cuda, reporter, memory = gpu.cuda, gpu.cuda.reporter, gpu.cuda.memory
        synchronize = synchronizer(cuda)
        idents = {stream: gpu.cuda.streams.of(0, stream) for stream in STREAMS}
        events = [reporter.next_event() for _ in range(3)]
        for event in events:
            call(gpu, "event", event, 0, timing=False)

        def on(stream):
            current.handle = stream

        def record(event, stream):
            call(gpu, "record", events[event], idents[stream], reporter.site())

        def wait(event, stream):
            call(gpu, "wait", events[event], idents[stream], reporter.site(), WaitCall.TORCH)

        def follow(first, second):
            record(2, first)
            wait(2, second)

        def record_stream(tensor, stream):
            call(gpu, "record_stream", *memory.access(tensor, is_write=False)[:2], idents[stream], reporter.site())

        code = compile(text, "/random_program.py", "exec")
        functions = {f.__name__: f for f in (on, record, wait, follow, record_stream, synchronize)}
        for _ in range(times):
            on(0)
            exec(code, {"torch": torch, "look_at": memory.allocation_of, **functions})
        on(0)
        report = gpu.report()
        return {
            (f.rule.code, f.location.frame.line) for f in report.findings if f.rule.code < "SYN7"
        }, report.incomplete


@pytest.fixture
def waiting_calls(monkeypatch):
    """Let every call wait that may ever wait."""
    monkeypatch.setattr(WaitingCalls, "may_wait", lambda self, n_findings: True)


@pytest.mark.slow
@pytest.mark.usefixtures("waiting_calls")
@pytest.mark.parametrize("first", range(0, N_PROGRAMS, 10))
def test_random_programs_have_the_same_findings_if_calls_wait(first, on_cpu, recorder):
    assert_agreement(first, on_cpu, recorder)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, N_PROGRAMS, 10))
def test_random_programs_have_the_same_findings_with_either_recorder(first, on_cpu, recorder):
    assert_agreement(first, on_cpu, recorder)


def assert_agreement(first, on_cpu, recorder):
    n_findings = 0
    for seed in range(first, first + 10):
        text = random_program(random.Random(seed))
        expected = findings_of(text, on_cpu, None)
        assert findings_of(text, on_cpu, recorder) == expected, f"seed {seed}:\n{text}"
        n_findings += len(expected[0])
    assert n_findings > 10


def test_unused_memory_is_freed_at_the_right_moment(on_cpu, recorder):
    """Whether reuse is a finding depends on that moment: the stream may wait later."""
    text = """t = torch.full((8,), 1.0).neg_(); torch.empty(8)
kept = [torch.full((8,), 1.0) for _ in range(64)]
t = torch.full((8,), 1.0)
on(7); t.neg_()
on(0); t = None
x = torch.empty(8)
record(1, 0)
x = torch.full((8,), 1.0)
record(0, 7)
wait(0, 0)
on(0); x.neg_()
"""
    expected = findings_of(text, on_cpu, None, times=1)
    assert ("SYN201", 4) in expected[0]
    assert findings_of(text, on_cpu, recorder, times=1) == expected


def test_use_of_memory_that_another_stream_may_be_using_is_found_if_the_host_waits_later(on_cpu, recorder):
    text = """on(0); t = torch.full((8,), 1.0); torch.empty(8).neg_()
look_at(t)
follow(0, 7)
on(7); u = t + 1
on(0); t = None
x = torch.empty(8)
record(1, 0)
x.neg_()
synchronize(0)
follow(7, 0)
"""
    expected = findings_of(text, on_cpu, None, times=1)
    assert ("SYN201", 4) in expected[0]
    assert findings_of(text, on_cpu, recorder, times=1) == expected


def test_accesses_that_the_host_has_waited_for_are_not_passed_to_the_session(on_cpu, recorder):
    with watched_gpu(on_cpu, extension=recorder) as gpu:
        make_plans()
        gpu.cuda.streams.of(0, 7)
        call(gpu, "sync_device", 0, 0)
        n_launches = len(gpu.monitor.launches())
        kept = [torch.ones(4) for _ in range(3)]
        for act in gpu.cuda.reporter.before_wait:
            act(gpu.cuda.streams.of(0, 0))
        assert ("aten::ones", [True]) not in gpu.monitor.launches()[n_launches:]
        assert kept
