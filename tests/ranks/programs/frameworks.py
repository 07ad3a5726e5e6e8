"""Sharded, tensor and pipeline parallel training, and a communication hook, on two ranks."""

import warnings

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

warnings.simplefilter("ignore")
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
torch.manual_seed(0)
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cuda", (size,))


def two_layers():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)).cuda()


model = FullyShardedDataParallel(two_layers(), use_orig_params=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(2, 4, device="cuda")).sum().backward()
    optimizer.step()

model = parallelize_module(two_layers(), mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
x = torch.ones(2, 4, device="cuda")
out = model(x)
out.sum().backward()
assert out.shape == (2, 4)


def average(state, bucket):
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0].div_(size))


model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
model.register_comm_hook(None, average)
model(x * (rank + 1)).sum().backward()
gradient = model.module.weight.grad.clone()
dist.all_reduce(gradient)
assert torch.allclose(gradient, model.module.weight.grad * size)

layers = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)).cuda()
model = DistributedDataParallel(torch.nn.SyncBatchNorm.convert_sync_batchnorm(layers))
images = torch.randn(4, 2, 8, 8, device="cuda") + rank
model(images).square().sum().backward()
every = [torch.zeros_like(layers[1].running_mean) for _ in range(size)]
dist.all_gather(every, model.module[1].running_mean)
assert torch.equal(every[0], every[-1])

if size > 1:
    stage = PipelineStage(torch.nn.Linear(4, 4).cuda(), rank, size, torch.device("cuda", torch.cuda.current_device()))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda a, b: (a - b).square().mean())
    x = torch.randn(4, 4, device="cuda")
    schedule.step(x) if rank == 0 else schedule.step(target=x) if rank == size - 1 else schedule.step()
dist.destroy_process_group()
