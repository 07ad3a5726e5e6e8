"""NCCL process groups without NCCL, with NCCL's use of streams."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.fixture
def job(gpu):
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield gpu
    dist.destroy_process_group()


@pytest.fixture
def x(job):
    return torch.ones(4, device="cuda")


def shown(calls):
    return [call for call in calls if not call.startswith(("allocate", "free"))]


def test_a_synchronous_collective_runs_on_the_current_stream(job, x):
    assert shown(job.calls_of(lambda: dist.all_reduce(x))) == ["launch cuda:0 c10d::allreduce_ w1"]
    assert x.tolist() == [1] * 4


def test_an_asynchronous_collective_runs_on_its_groups_stream(job, x):
    with job.calling() as calls:
        work = dist.all_reduce(x, async_op=True)
    assert shown(calls) == [
        "wait s1 for cuda:0 (torch)", "launch s1 c10d::allreduce_ w1", "handle of c10d::allreduce_", "record e1 on s1",
    ]  # fmt: skip
    assert shown(job.calls_of(work.wait)) == ["wait cuda:0 for e1 (torch)"]
    assert job.monitor.names["stream", 2] == "nccl"


def test_wait_orders_the_stream_that_is_current_at_the_call(job, x):
    work, side = dist.all_reduce(x, async_op=True), torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert shown(job.calls_of(work.wait)) == ["wait s2 for e1 (torch)"]
    assert shown(job.calls_of(work.wait)) == ["wait cuda:0 for e1 (torch)"]  # another stream may have to wait, too


def test_a_dropped_handle_is_reported(job, x):
    dist.all_reduce(x, async_op=True)
    job.session.ended()
    assert job.codes() == ["SYN603"]


def test_pending_work_is_not_complete_on_the_first_query(job, x):
    work = dist.all_reduce(x, async_op=True)
    assert [work.is_completed(), work.is_completed()] == [False, True]
    assert job.calls[-1] == "sync e1"


def test_a_timeout_makes_the_host_wait(job, x):
    work = dist.all_reduce(x, async_op=True)
    assert shown(job.calls_of(lambda: work.wait(timedelta(seconds=5)))) == ["wait cuda:0 for e1 (torch)", "sync e1"]


def test_a_barrier_makes_the_host_wait(job):
    assert "sync cuda:0 (asked for)" in job.calls_of(lambda: dist.barrier(device_ids=[0]))


def test_host_tensors_are_left_to_gloo(job):
    h = torch.ones(4)
    assert job.calls_of(lambda: dist.all_reduce(h)) == []


def test_each_group_has_its_own_stream(job, x):
    group = dist.new_group([0])
    works = [dist.all_reduce(x, async_op=True), dist.all_reduce(x, group=group, async_op=True)]
    launched = [call.split()[1] for call in job.calls if call.startswith("launch s")]
    assert launched == ["s1", "s2"]
    for work in works:
        work.wait()


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_waiting_for_a_reduce_scatter_does_not_write_its_output_again(x):
    output = torch.zeros(4, device="cuda")
    work = dist.reduce_scatter_tensor(output, x, async_op=True)
    torch.cuda.synchronize()
    output.fill_(7)
    work.wait()
    assert output.tolist() == [7] * 4


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_a_handle_owns_its_outputs(job, x):
    output = torch.zeros(4, device="cuda")
    work = dist.reduce_scatter_tensor(output, x, async_op=True)
    work.wait()

    def release():
        nonlocal output
        del output

    assert not any(call.startswith("free") for call in job.calls_of(release))
