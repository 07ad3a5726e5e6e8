"""Collectives on real GPUs: the NCCL work that callbacks do not report."""

import pytest
import torch

from syncheck.cuda.callback_order import Callback, Kind
from syncheck.cuda.collectives import Collectives, Handles
from syncheck.instrument.collectives import calls

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")


class Work:
    """Handle of a collective (a SimpleNamespace does not support weak references)."""


@pytest.fixture
def collectives(gpu):
    return Collectives(gpu.cuda.reporter, gpu.cuda.streams, gpu.cuda.captures)


@pytest.fixture
def dispatch(gpu):
    return gpu.cuda.operators.plan(torch.ops.c10d.allreduce_.default)


def launched(gpu, collectives, dispatch, stream, inner=()):
    x = torch.ones(4)
    accesses = [gpu.cuda.memory.access(x, is_write=True)]
    collectives.launched(dispatch, ([x], None), {}, stream, 0, accesses, list(inner))
    return accesses


def test_a_dedicated_collective_stream_is_named_nccl_once(gpu, collectives, dispatch):
    side = gpu.cuda.streams.of(0, 7)
    for _ in range(2):
        launched(gpu, collectives, dispatch, side)
    assert [call[1:] for call in gpu.monitor.named("name")] == [("stream", side, "nccl")]


def test_python_calls_get_a_handle_for_their_collective(gpu, collectives, dispatch, monkeypatch):
    side = gpu.cuda.streams.of(0, 7)
    launched(gpu, collectives, dispatch, side)
    assert gpu.monitor.named("collective") == []
    monkeypatch.setattr(calls, "depth", 1)
    gpu.cuda.reporter.monitor.launch(side, "c10d::allreduce_", (), 0)
    launched(gpu, collectives, dispatch, side, [Callback(Kind.RECORD, 5, side)])
    assert gpu.monitor.named("collective")[0][1:3] == (side, "c10d::allreduce_")
    assert calls.event == 5
    calls.event = 0


def test_point_to_point_operations_protect_their_tensors(gpu, collectives):
    side = gpu.cuda.streams.of(0, 7)
    ((allocation, view, _),) = launched(gpu, collectives, gpu.cuda.operators.plan(torch.ops.c10d.send.default), side)
    assert gpu.monitor.named("record_stream") == [("record_stream", allocation, view, side, 0)]


def test_collectives_on_the_current_stream_need_no_extra_reports(gpu, collectives, dispatch):
    launched(gpu, collectives, dispatch, 1)
    assert gpu.monitor.named("name") == gpu.monitor.named("collective") == []


def test_a_completed_handle_synchronizes_the_host_with_its_event(gpu):
    handles, work = Handles(gpu.cuda.reporter), Work()
    event = gpu.cuda.reporter.next_event()
    gpu.monitor.event(event, 0, timing=False)
    gpu.monitor.record(event, 1, 0)
    handles.add(work, event)
    handles._report_complete(work)
    handles._report_complete(Work())
    assert [call[1] for call in gpu.monitor.named("sync_event")] == [event]
    del work
    assert handles._events == {}
