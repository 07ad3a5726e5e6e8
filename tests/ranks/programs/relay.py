"""Each rank sends to the next one. With "same", it sends from the buffer that the same batch receives into."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank % torch.cuda.device_count())
buffers = torch.full((2, 1 << 16), float(rank), device="cuda")
received, sent = (buffers[0], buffers[0]) if "same" in sys.argv else buffers
for _ in range(2):
    ops = [dist.P2POp(dist.irecv, received, (rank - 1) % size), dist.P2POp(dist.isend, sent, (rank + 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    sent.copy_(received)
print(received.sum().item())
dist.destroy_process_group()
