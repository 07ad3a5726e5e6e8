import sys

import torch
import torch.distributed as dist


def main(rank):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    x = torch.ones(4, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    if sys.argv[1:2] != ["only"] or rank == int(sys.argv[2]):
        y = x + 1
    work.wait()
    y = x + 1
    dist.all_reduce(y)
    print(sys.argv[1:])
    dist.destroy_process_group()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    main(dist.get_rank())
