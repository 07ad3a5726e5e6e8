"""Deferred and elided monitor calls, and when torch's GPU trace is suppressed.

`tests/properties` uses random programs to show that no finding is lost.
"""

from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.gpu_trace import GpuTrace
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import plan_of


@pytest.fixture
def trace():
    """Return a trace whose switch is a stand-in."""
    trace = GpuTrace()
    trace.switch = SimpleNamespace(value=False)
    return trace


def test_calls_on_a_single_stream_are_deferred_and_reported_in_order(gpu):
    torch.ones(4).neg_()
    gpu.cuda.flush_calls()
    gpu.monitor.calls.clear()
    torch.ones(4).neg_()
    assert gpu.monitor.calls == []
    gpu.cuda.flush_calls()
    assert [call[0] for call in gpu.monitor.calls] == ["allocate", "launch", "launch", "free"]


def test_the_call_buffer_is_bounded(gpu):
    a = torch.ones(4)
    for _ in range(5000):
        a.neg_()
    assert len(gpu.cuda.reporter.call_buffer.calls) < 3000


def test_launches_are_reported_immediately_once_a_second_stream_exists(gpu):
    a = torch.ones(4)
    gpu.current.handle = 7
    b = torch.ones(4)
    b.add_(1)
    calls = [call[:3] for call in gpu.monitor.calls if call[0] in {"launch", "stream"}]
    assert [call[0] for call in calls[-4:]] == ["launch", "stream", "launch", "launch"]
    gpu.current.handle = 0
    a.add_(1)
    assert gpu.monitor.calls[-1][:3] == ("launch", 1, "aten::add_")


def test_deferred_calls_are_flushed_before_a_clock_read(gpu):
    torch.ones(4)
    gpu.cuda.reporter.monitor.clock(1, 0)
    assert [call[0] for call in gpu.monitor.calls if call[0] in {"launch", "clock"}] == ["launch", "clock"]


def test_a_forked_child_drops_its_parents_buffered_calls(gpu):
    torch.ones(4)
    gpu.cuda.reporter.become_child()
    assert not gpu.cuda.reporter.call_buffer.calls


def test_condensed_calls_keep_only_accesses_that_later_work_can_depend_on(gpu):
    gpu.cuda.reporter.call_buffer.condenses = True
    a = torch.ones(4)
    for _ in range(3):
        a.add_(a * 2 + 1)
    assert gpu.monitor.launches() == [
        ("aten::ones", []),
        ("aten::mul", [False]),
        ("aten::add", []),
        ("aten::add_", [True]),
    ]
    assert [call[1] for call in gpu.monitor.named("allocate")] == [1]
    assert gpu.monitor.named("free") == []
    gpu.monitor.calls.clear()
    a.add_(a * 2 + 1)
    a.neg_()
    assert gpu.monitor.launches() == [("aten::mul", [False]), ("aten::neg_", [True])]
    assert [call[:3] for call in gpu.monitor.named("launches_elided")] == [
        ("launches_elided", 1, 1),
        ("launches_elided", 1, 1),
    ]
    assert gpu.report().summary.operators == 1 + 3 * 3 + 4


def test_memory_known_to_the_monitor_is_reported_as_freed(gpu):
    gpu.cuda.reporter.call_buffer.condenses = True
    a = torch.ones(4)
    gpu.cuda.flush_calls()
    a.neg_()
    del a
    assert [call[1] for call in gpu.monitor.named("free")] == [1]
    assert gpu.monitor.launches()[1:] == [("aten::neg_", [])]


def test_another_storage_over_part_of_a_live_block_frees_nothing(gpu):
    a = torch.ones(8)
    part = a[4:]
    part.add_(1)
    again = torch.from_numpy(a.numpy()[4:]).untyped_storage()
    assert gpu.cuda.memory.is_known(again, part.data_ptr())
    assert gpu.monitor.named("free") == []
    a.add_(1)
    assert gpu.report().incomplete == ()


def test_a_reused_address_is_not_freed_with_its_previous_allocation(gpu):
    a = torch.ones(8)
    memory = gpu.cuda.memory
    old = memory.live[a.data_ptr()]
    new = memory.begin(a.untyped_storage(), a.data_ptr(), 32, 1, 0)
    memory.dead.append(old)
    memory.release_dead()
    assert memory.live[a.data_ptr()] is new
    assert gpu.monitor.named("free") == []


def test_nothing_is_elided_once_another_stream_may_be_active(gpu):
    gpu.cuda.reporter.call_buffer.condenses = True
    a = torch.ones(4)
    gpu.current.handle = 7
    torch.ones(4)
    del a
    assert [call[1] for call in gpu.monitor.named("allocate")] == [1, 2]
    assert [call[1] for call in gpu.monitor.named("free")] == [2, 1]


def test_frees_are_attributed_to_call_sites_once_a_second_stream_exists(gpu):
    a = torch.ones(4)
    gpu.current.handle = 7
    b = torch.ones(4)
    del a
    del b
    sources = [gpu.cuda.reporter.sites.location(call[2]).frame.source.strip() for call in gpu.monitor.named("free")]
    assert sources == ["del a", "del b"]


def test_a_launch_is_reported_immediately_if_another_stream_allocated_memory(gpu):
    a = torch.ones(4)
    gpu.current.handle = 7
    torch.empty(4)
    gpu.current.handle = 0
    a.add_(1)
    assert gpu.monitor.calls[-1][:3] == ("launch", 1, "aten::add_")


# -- which operators need a listener


def listens(operator):
    return DispatchPlan(operator, plan_of(operator), None).listens


def test_operators_that_never_wait_or_record_need_no_listener():
    aten = torch.ops.aten
    silent = [aten.mm.default, aten.add.Tensor, aten._foreach_add_.Scalar, aten.native_layer_norm.default]
    loud = [aten.nonzero.default, aten.equal.default, aten.masked_fill.Tensor, aten._local_scalar_dense.default]
    assert not any(map(listens, silent))
    assert all(map(listens, loud))


def test_operators_defined_by_the_program_have_a_listener(gpu):
    with torch.library._scoped_library("backlog_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor", tags=torch.Tag.pointwise)
        seen = []
        library.impl(
            "twice", lambda x: (seen.append(gpu.cuda.gpu_trace.switch.value), x * 2)[1], "CompositeExplicitAutograd"
        )
        gpu.cuda.gpu_trace.switch = SimpleNamespace(value=False)
        torch.ops.backlog_test.twice(torch.ones(2))
    assert seen == [True]


def test_a_deferred_call_is_suppressed_until_the_trace_is_enabled(trace):
    seen = []

    def work():
        seen.append(trace.switch.value)
        trace.enable()
        seen.append(trace.switch.value)

    trace.defer(work)
    assert seen == [False, True]
    assert not trace.switch.value
    assert trace.inside == []


def test_a_deferred_call_stays_suppressed_unless_it_is_nested(trace):
    seen = []
    trace.around(lambda: (trace.defer(lambda: seen.append(trace.switch.value)), seen.append(trace.switch.value)))()
    trace.defer(lambda: seen.append(trace.switch.value))
    assert seen == [True, True, False]
    assert not trace.switch.value
    with pytest.raises(ZeroDivisionError):
        trace.defer(lambda: 1 / 0)
    trace.enable()
    assert not trace.switch.value


def test_deferred_calls_are_traced_once_the_trace_is_enabled(trace):
    trace.enable()
    seen = []
    trace.defer(lambda: (trace.enable(), seen.append(trace.switch.value)))
    assert seen == [True]
    assert trace.inside == []
    assert not trace.switch.value


def test_every_operator_needs_a_listener_once_sparse_tensors_exist(gpu):
    aten = torch.ops.aten
    a = torch.ones(3, 3)
    a + a
    assert not gpu.cuda.operators.plan(aten.add.Tensor).listens
    a.to_sparse()
    assert gpu.cuda.operators.plans[id(aten.add.Tensor)].listens
    assert gpu.cuda.operators.plan(aten.mul.Tensor).listens


def test_a_second_stream_enables_the_trace_during_a_deferred_call(gpu):
    gpu.cuda.gpu_trace.switch = SimpleNamespace(value=False)
    seen = []

    def work():
        torch.ones(4)
        seen.append(gpu.cuda.gpu_trace.switch.value)
        gpu.current.handle = 7
        torch.ones(4)
        seen.append(gpu.cuda.gpu_trace.switch.value)

    gpu.cuda.gpu_trace.defer(work)
    assert seen == [False, True]


@pytest.fixture
def muting_calls(monkeypatch):
    """Return a function that installs a trace and returns the arguments passed to `set_muted`."""
    calls = []

    def installed(switch):
        monkeypatch.setattr(devices, "start_trace", lambda: switch)
        trace, patches = GpuTrace(), Patches()
        trace.set_muted = calls.append
        trace.install(patches)
        patches.undo()
        return calls

    return installed


def test_torchs_memory_callbacks_are_silenced_during_a_check(muting_calls):
    assert muting_calls(SimpleNamespace(value=False)) == [True, False]


def test_memory_callbacks_are_kept_if_others_listen(muting_calls):
    assert True not in muting_calls(devices.NoSwitch())


def test_a_trace_activated_by_the_program_during_a_check_stays_active(trace, monkeypatch):
    switch = SimpleNamespace(value=False)
    monkeypatch.setattr(devices, "start_trace", lambda: switch)
    original, patches = torch._C._activate_gpu_trace, Patches()
    trace.install(patches)
    torch._C._activate_gpu_trace()
    trace.around(lambda: None)()
    assert switch.value
    patches.undo()
    assert switch.value
    assert torch._C._activate_gpu_trace is original


def test_the_trace_can_be_activated_again_after_a_check(monkeypatch):
    flag, calls = SimpleNamespace(value=True), []
    monkeypatch.setattr(devices, "_c", SimpleNamespace(_activate_gpu_trace=lambda: calls.append("torch")))
    monkeypatch.setattr(devices, "_trace_switch", lambda: flag)
    for _ in range(2):  # two checks
        assert devices.start_trace() is flag
        assert not flag.value
    devices._c._activate_gpu_trace()
    assert flag.value
    assert devices._c._activate_gpu_trace.__wrapped__.__name__ == "<lambda>"  # wrapped once
