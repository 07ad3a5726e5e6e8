"""Futures of collectives."""

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.fixture
def job(gpu):
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield gpu
    dist.destroy_process_group()


def test_who_waits_for_a_future_orders_the_current_stream(job):
    x = torch.ones(4, device="cuda")
    future = dist.all_reduce(x, async_op=True).get_future()
    assert "wait cuda:0 for e1 (torch)" in job.calls_of(future.wait)


def test_a_callback_runs_on_a_stream_of_its_own_after_the_collective(job):
    x = torch.ones(4, device="cuda")
    future = dist.all_reduce(x, async_op=True).get_future()
    with job.calling() as calls:
        end = future.then(lambda value: x.mul_(2))
    shown = [call for call in calls if call.startswith(("wait", "launch", "record"))]
    assert shown == ["wait s2 for e1 (torch)", "launch s2 mul_ w1", "record e2 on s2"]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert "wait cuda:0 for e2 (torch)" in job.calls_of(end.wait)


def test_other_futures_are_torchs_own(job):
    future = torch.futures.Future()
    future.set_result(3)
    assert job.calls_of(future.wait) == []
    assert future.then(lambda value: value.value() + 1).wait() == 4
