"""Pipeline ranks exchange activations in a batch; the received one is used before the requests end."""
# ranks: 2

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(0)
other = 1 - rank
mine = torch.rand(128, device="cuda")
theirs = torch.empty(128, device="cuda")
operations = [dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, theirs, other)]
requests = dist.batch_isend_irecv(operations)
total = mine + theirs  # expect-run: SYN601
for request in requests:
    request.wait()
print(total.sum().item())
dist.destroy_process_group()
