"""Copies between the host and devices."""

from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import copies as module
from syncheck.semantics.copies import copy_plan


@pytest.fixture
def copies(gpu):
    return gpu.cuda.copies


@pytest.mark.parametrize("name", ["_to_copy", "copy_", "_foreach_copy_", "record_stream", "_pin_memory"])
def test_copy_operators_have_special_handlers(copies, name):
    applies, run = copies.specials[name]
    assert callable(applies)
    assert callable(run)


def test_crossing_devices_is_detected_for_tensors_and_lists():
    x = SimpleNamespace(get_device=lambda: 0)
    y, h = SimpleNamespace(get_device=lambda: 1), SimpleNamespace(get_device=lambda: -1)
    assert not module._crosses((x, x), {})
    assert module._crosses((x, h), {})
    assert module._crosses((x, 5), {})
    assert not module._crosses((h, 2.5), {})
    assert module._any_crosses(([x, x], [x, y]), {})
    assert not module._any_crosses(([x, x], [x, x]), {})


@pytest.mark.parametrize(
    ("wanted", "moves"),
    [(None, False), ("cpu", False), ("cuda", True), ("cuda:1", True), ("meta", True)],
)
def test_a_conversion_moves_data_only_to_another_device(wanted, moves):
    kwargs = {} if wanted is None else {"device": torch.device(wanted)}
    assert module._moves((torch.ones(2),), kwargs) is moves
    assert not module._moves((3,), kwargs)


def test_a_copy_between_devices_makes_both_streams_wait(gpu, copies):
    x, y = torch.ones(4), torch.ones(4)
    gpu.cuda.streams.of(1, 0)
    accesses = [gpu.cuda.memory.access(x, is_write=False), gpu.cuda.memory.access(y, is_write=True)]
    gpu.cuda.flush_calls()
    gpu.monitor.calls.clear()
    plan = copy_plan(module.CopyEnd(1), module.CopyEnd(0), non_blocking=False)
    copies._launch_between(plan, 1, accesses, [x, y])
    assert [call[:3] for call in gpu.monitor.calls if call[0] in {"wait_stream", "launch"}] == [
        ("wait_stream", 1, 2), ("launch", 1, "aten::copy_"), ("wait_stream", 2, 1),
    ]  # fmt: skip


def test_record_stream_is_reported_with_the_exact_view(gpu, copies):
    x = torch.ones(2, 3)
    side = gpu.cuda.streams.of(0, 7)
    copies.note_record(x, SimpleNamespace(cuda_stream=7, device_index=0))
    (call,) = gpu.monitor.named("record_stream")
    assert call[1:4] == (gpu.cuda.memory.allocation_of(x), gpu.cuda.memory.exact_view(x), side)


def test_a_failing_copy_raises_its_own_error_and_restores_callbacks(gpu, copies):
    def fail(*_, **__):
        raise ZeroDivisionError

    dispatch = SimpleNamespace(call=fail, plan=None)
    with pytest.raises(ZeroDivisionError):
        copies.specials["_to_copy"][1](dispatch, (torch.ones(2),), {})
    assert not gpu.cuda.reporter.callbacks_suppressed
