"""Random numbers of DTensor, as FSDP2 initializes parameters in place."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("nccl", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
mesh = init_device_mesh("cuda", (1,))
for placement in (Shard(0), Replicate()):
    weight = distribute_tensor(torch.zeros(4, 4, device="cuda"), mesh, [placement])
    for change in (torch.nn.init.normal_, torch.nn.init.uniform_, torch.nn.init.kaiming_uniform_):
        change(weight)
    assert weight.to_local().is_cuda
    assert weight.is_cuda
    assert {weight.device, (weight * 2).device} == {torch.device("cuda", 0)}
    assert weight.to_local().abs().sum() > 0
offset = torch.cuda.default_generators[0].get_offset()
state = torch.cuda.get_rng_state()
assert state.numel() == 16
first = torch.nn.init.normal_(weight).to_local().clone()
assert torch.cuda.default_generators[0].get_offset() > offset
torch.cuda.set_rng_state(state)
assert torch.equal(first, torch.nn.init.normal_(weight).to_local())

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)).cuda()
fully_shard(model, mesh=mesh)
for parameter in model.parameters():
    torch.nn.init.normal_(parameter, std=0.1)
model(torch.randn(2, 4, device="cuda")).sum().backward()
assert model[0].weight.grad is not None
dist.destroy_process_group()
