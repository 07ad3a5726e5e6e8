import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank, size, arguments):
    dist.init_process_group("nccl", f"tcp://127.0.0.1:{os.environ['PORT']}", rank=rank, world_size=size)
    torch.cuda.set_device(rank % torch.cuda.device_count())
    x = torch.ones(4, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    y = x + 1
    work.wait()
    print(arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(2, sys.argv[1:]), nprocs=2)
