"""Reports of launches and of the ordering that torch adds around them."""

import pytest
import torch

from syncheck.cuda.callback_order import Callback, Kind


@pytest.fixture
def launches(gpu):
    return gpu.cuda.launches


def test_a_launch_reports_each_access_once(gpu, launches):
    x = torch.ones(4)
    access = gpu.cuda.memory.access(x, is_write=True)
    launches.launch("mine::op", 1, 0, [access, (*access[:2], False)], [x])
    assert gpu.monitor.named("launch")[-1][1:4] == (1, "mine::op", [access])


def test_a_launch_without_accesses_is_reported_only_if_it_touches_nothing(gpu, launches):
    launches.launch("mine::op", 1, 0, [], [])
    assert gpu.monitor.named("launch") == []
    launches.launch_empty("torch.cuda._sleep", 1, 0)
    assert gpu.monitor.named("launch")[-1][1:4] == (1, "torch.cuda._sleep", ())


def test_callbacks_are_reported_by_kind(gpu, launches):
    event = gpu.cuda.reporter.next_event()
    gpu.monitor.event(event, 0, timing=False)
    gpu.monitor.calls.clear()
    kinds = [Kind.RECORD, Kind.WAIT, Kind.SYNC_STREAM, Kind.SYNC_EVENT, Kind.SYNC_DEVICE]
    launches.replay_callbacks([Callback(kind, event, 0 if kind is Kind.SYNC_DEVICE else 1) for kind in kinds])
    assert [call[:2] for call in gpu.monitor.calls] == [
        ("record", event), ("wait", event), ("sync_stream", 1), ("sync_event", event), ("sync_device", 0),
    ]  # fmt: skip
    launches.replay_callbacks([])


def test_a_finding_describes_its_tensor_with_name_and_shape(gpu):
    x = torch.ones(2, 3)
    gpu.current.handle = 7
    x.add_(1)
    assert gpu.monitor.named("describe_allocation")[0][1] == gpu.cuda.memory.allocation_of(x)
    (finding,) = gpu.report().findings
    assert "`x` (2x3 float32, 24 bytes)" in finding.message
