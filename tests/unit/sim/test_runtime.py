"""The runtime shared by all parts of the simulator."""

import gc

import pytest
import torch

from syncheck.hb.ids import NamedKind
from syncheck.sim import runtime as module
from syncheck.sim.runtime import active


def test_a_process_has_one_active_runtime(gpu):
    assert active() is gpu.runtime


def test_there_is_no_runtime_without_simulated_gpus():
    with pytest.raises(RuntimeError, match="no simulated GPU is active"):
        active()


@pytest.mark.parametrize(
    ("device", "index"),
    [(1, 1), ("cuda:1", 1), (torch.device("cuda", 1), 1), (None, 0), ("cuda", 0), (-1, 0)],
)
def test_a_device_can_be_named_in_several_ways(gpus, device, index):
    assert gpus.runtime.index_of(device) == index


def test_an_omitted_device_index_is_recorded(gpus):
    state = gpus.runtime.gpus.thread
    gpus.runtime.index_of("cuda:1")
    assert not state.implicit_device
    gpus.runtime.index_of("cuda")
    assert state.implicit_device


def test_other_devices_are_rejected(gpus):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        gpus.runtime.index_of(2)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        gpus.runtime.index_of("cpu")


def test_pending_work_is_not_complete_on_the_first_query(gpu):
    torch.ones(4, device="cuda")
    stream = torch.cuda.current_stream()
    with gpu.calling() as calls:
        assert [stream.query(), stream.query(), stream.query()] == [False, True, True]
    assert [call for call in calls if call.startswith("sync")] == ["sync cuda:0", "sync cuda:0"]


def test_new_work_makes_the_next_query_false_again(gpu):
    stream, answers = torch.cuda.Stream(), []
    for wait in (stream.synchronize, torch.cuda.synchronize, lambda: stream.record_event().synchronize()):
        with torch.cuda.stream(stream):
            torch.ones(4, device="cuda")
        answers.append(stream.query())
        wait()
        assert stream.query()
    assert answers == [False, False, False]


def test_synchronizing_other_work_does_not_affect_a_query(gpu):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.ones(4, device="cuda")
    assert not stream.query()
    torch.cuda.current_stream().synchronize()
    assert stream.query()


def test_an_event_query_starts_over_after_another_record(gpu):
    event = torch.cuda.Event()
    assert event.query()
    answers = []
    for _ in range(2):
        torch.ones(4, device="cuda")
        event.record()
        answers += [event.query(), event.query()]
    assert answers == [False, True, False, True]


def test_an_untracked_write_to_an_exported_buffer_is_reported(gpu):
    h = torch.ones(4).pin_memory()
    view = h.numpy()
    x = torch.empty(4, device="cuda")
    x.copy_(h, non_blocking=True)
    view[0] = 5
    torch.cuda.synchronize()
    assert gpu.codes() == ["SYN302"]


def test_an_unchanged_buffer_is_not_reported(gpu):
    h = torch.ones(4).pin_memory()
    h.numpy()
    torch.empty(4, device="cuda").copy_(h, non_blocking=True)
    torch.cuda.synchronize()
    assert "SYN302" not in gpu.codes()


def test_the_host_may_not_wait_during_a_capture(gpu):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
            torch.cuda.synchronize()
        with pytest.raises(RuntimeError, match="previous error during capture"):
            graph.capture_end()
    assert gpu.codes() == ["SYN902"]


def test_objects_of_the_program_are_identified(gpu):
    stream, event, x = torch.cuda.Stream(), torch.cuda.Event(), torch.ones(4, device="cuda")
    runtime = gpu.runtime
    assert (runtime.stream_of(stream), runtime.stream_of(event), runtime.stream_of(3)) == (stream.ident, 0, 0)
    assert (runtime.event_of(event), runtime.event_of(stream)) == (event.ident, 0)
    assert runtime.allocation_of(x) != 0
    assert stream.kind is NamedKind.STREAM


def test_deleted_objects_are_reported(gpu):
    destroyed = []
    gpu.session.object_destroyed = lambda kind, ident: destroyed.append(str(kind))
    torch.cuda.Stream()
    torch.cuda.Event(enable_timing=True)
    gc.collect()
    torch.ones(1, device="cuda")  # reported with the next call
    assert sorted(destroyed) == ["stream", "timing event"]


def test_a_forked_child_cannot_use_the_gpus(gpu):
    gpu.runtime.is_in_bad_fork = True
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        gpu.runtime.index_of(0)
    gpu.runtime.is_in_bad_fork = False


def test_unmonitored_work_is_not_reported(gpu):
    with gpu.calling() as calls, gpu.runtime.unmonitored():
        torch.ones(4) + 1
    assert calls == []
    assert module.active() is gpu.runtime


def test_unmonitored_work_ignores_the_programs_default_device(gpu):
    with torch.device("cuda"):
        x = torch.ones(4)
        assert x.new(2).is_cuda
        assert torch.zeros_like(x, device="cpu").device.type == "cpu"
        assert x.untyped_storage().clone().is_cuda
