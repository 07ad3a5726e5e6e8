"""Futures of collectives."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.fixture
def job(gpu):
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield gpu
    dist.destroy_process_group()


def test_waiting_for_a_future_orders_the_current_stream(job):
    x = torch.ones(4, device="cuda")
    future = dist.all_reduce(x, async_op=True).get_future()
    assert "wait cuda:0 for e1 (torch)" in job.calls_of(future.wait)


def test_a_callback_runs_on_its_own_stream_after_the_collective(job):
    x = torch.ones(4, device="cuda")
    future = dist.all_reduce(x, async_op=True).get_future()
    with job.calling() as calls:
        end = future.then(lambda value: x.mul_(2))
    shown = [call for call in calls if call.startswith(("wait", "launch", "record"))]
    assert shown == ["record_stream 1 s2", "wait s2 for e1 (torch)", "launch s2 mul_ w1", "record e2 on s2"]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert "wait cuda:0 for e2 (torch)" in job.calls_of(end.wait)


def test_other_futures_are_torchs_own(job):
    future = torch.futures.Future()
    future.set_result(3)
    assert job.calls_of(future.wait) == []
    assert future.then(lambda value: value.value() + 1).wait() == 4


def set_on_side(future):
    with torch.cuda.stream(torch.cuda.Stream()):
        future.set_result(torch.ones(4, device="cuda") * 2)


@pytest.mark.parametrize("is_early", [True, False])
def test_a_future_with_devices_orders_those_who_wait_for_it(job, is_early):
    future = torch.futures.Future(devices=["cuda:0"])
    children = [future.then(lambda done: done.value() + 1)] if is_early else []
    set_on_side(future)
    children += [] if is_early else [future.then(lambda done: done.value() + 1)]
    assert (future.wait().tolist(), children[0].wait().tolist()) == ([2] * 4, [3] * 4)
    assert job.codes() == []


def test_a_future_without_devices_orders_nothing(job):
    future = torch.futures.Future()
    set_on_side(future)
    future.wait().sum()
    assert job.codes() == ["SYN101"]


def test_a_future_with_devices_may_hold_other_values(job):
    future = torch.futures.Future(devices=["cuda:0", torch.device("cuda", 1)])
    child = future.then(lambda done: done.value() + 1)
    assert job.calls_of(lambda: future.set_result(3)) == []
    assert (future.wait(), child.wait()) == (3, 4)


def reduce_on(stream, wait, fresh=False):
    """Run one DDP training step whose communication hook uses the reduced gradients on its own stream."""
    layer = torch.nn.Linear(4, 4).cuda()
    model = DistributedDataParallel(layer)
    reducer = model.reducer
    if fresh:  # fresh bucket memory that no operator has used, as in DDP's mixed precision
        reducer._set_mixed_precision_param_dtype(torch.float64)
        reducer._set_mixed_precision_param_dtype(torch.float32)

    def hook(_, bucket):
        future = reducer._run_allreduce_hook(bucket)
        with torch.cuda.stream(stream):
            if wait:
                future.wait()
            layer.weight.grad.sum()
        torch.cuda.current_stream().wait_stream(stream)
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    model.register_comm_hook(None, hook)
    model(torch.randn(2, 4, device="cuda")).sum().backward()


def test_the_reducers_all_reduce_can_be_waited_for(job):
    reduce_on(torch.cuda.Stream(), wait=True)
    assert job.codes() == []


def test_the_reducers_all_reduce_can_be_waited_for_with_a_new_bucket(job):
    reduce_on(torch.cuda.Stream(), wait=True, fresh=True)
    assert job.codes() == []


def test_a_hook_that_does_not_wait_for_the_reducer_is_reported(job):
    reduce_on(torch.cuda.Stream(), wait=False)
    assert job.codes() == ["SYN101"]


def train_with(hook):
    """Run one DDP training step with a communication hook whose bucket is separate from the gradients' memory."""
    layer = torch.nn.Linear(4, 4).cuda()
    model = DistributedDataParallel(layer)
    model.register_comm_hook(None, hook)
    model(torch.randn(2, 4, device="cuda")).sum().backward()
    layer.weight.grad.sum()


@pytest.mark.parametrize("hook", [default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook])
def test_gradient_compression_hooks_have_no_findings(job, hook):
    train_with(hook)
    assert job.codes() == []


def test_a_hooks_future_is_waited_for_outside_of_a_backward_pass(job):
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    (bucket,) = model.reducer._get_zeros_like_grad_buckets()  # as `Join` does for a rank without inputs
    future = model.reducer._run_comm_hook(bucket)
    assert any(call.startswith("wait cuda:0 for") for call in job.calls_of(future.wait))
    del bucket, future
    assert job.codes() == []


def averaged_too_early(_, bucket):
    tensor = bucket.buffer()
    future = dist.all_reduce(tensor, async_op=True).get_future()
    tensor.div_(dist.get_world_size())
    return future.then(lambda done: done.value()[0])


def test_a_hook_that_writes_the_bucket_after_it_got_the_future_is_reported(job):
    train_with(averaged_too_early)
    assert job.codes() == ["SYN602"]


def test_a_hook_of_a_tensor_that_reads_a_result_after_it_got_the_future_is_reported(job):
    def read_too_early(gradient):
        total = gradient.clone()
        work = dist.all_reduce(total, async_op=True)
        work.get_future()
        total.norm()
        work.wait()

    parameter = torch.nn.Parameter(torch.ones(8, device="cuda"))
    parameter.register_hook(read_too_early)
    (parameter * parameter).sum().backward()
    assert job.codes() == ["SYN601"]
