"""Cost of checking a DistributedDataParallel training step, compared with the same step unchecked.

Run it as `python bench/ddp.py`. It uses two ranks with NCCL on two GPUs, or one rank on one GPU, and compares the
variants of `overhead.py`, in blocks that take turns in the same processes, except for torch's sanitizer, which has its
own. Without a GPU, it compares two ranks on simulated GPUs with two on the CPU with gloo.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
import torch.distributed as dist
from overhead import BARE, BUDGET, PEER, entered
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BLOCKS = {BARE: 500, "empty mode": 100, "Python recorder": 100, "native recorder": 100, BUDGET: 1000, PEER: 60}
"""Variants with their steps per block."""
WARM_UP = 20


def worker(output: Path, names: list[str], turns: int) -> None:
    """Train in blocks, one of each variant in each turn, and write the seconds of their steps after each turn."""
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    step = training(device)
    for name in names:  # compile the native recorder and load libraries
        with entered(name, step) as measured:
            block(measured, WARM_UP)
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    for turn in range(turns):
        for name in names if turn % 2 else names[::-1]:  # so that a drift of the machine cancels out
            with entered(name, step) as measured:
                found[name].append(block(measured, BLOCKS[name]))
        if rank == 0:
            output.write_text(json.dumps(found))
    dist.destroy_process_group()


def training(device: torch.device) -> Callable[[], None]:
    """Return a training step that ends with a synchronization."""
    width, layers, batch = 256, 8, 64
    modules = [layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*modules).to(device))
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(batch, width, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return step


def block(step: Callable[[], None], steps: int) -> list[float]:
    """Return the seconds of each of some steps."""
    seconds = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    return seconds


def run(command: list[str], names: list[str], turns: int, folder: Path) -> dict[str, list[list[float]]]:
    """Run the worker under a command and return the seconds of the steps of each block."""
    if not names:
        return {}
    output = folder / "seconds.json"
    options = ["--output", str(output), "--turns", str(turns)]
    subprocess.run([*command, __file__, *options, *names], check=True, capture_output=True)
    found: dict[str, list[list[float]]] = json.loads(output.read_text())
    return found


def main(names: list[str], turns: int) -> None:
    """Print a table of some variants, which include the unchecked one."""
    ranks = str(min(2, torch.cuda.device_count()) or 2)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks]
    checked = [sys.executable, "-m", "syncheck", "run", "--output", "/dev/null", "--nproc", ranks]
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "simulated GPUs against the CPU"
    print(f"a step of DDP (8 layers of 256, batch 64, AdamW), ranks: {ranks}, {where}:")
    with tempfile.TemporaryDirectory() as folder:
        if torch.cuda.is_available():
            together = [name for name in names if name != PEER]
            found = run(torchrun, together, turns, Path(folder))
            found |= run(torchrun, [name for name in names if name == PEER], turns, Path(folder))
        else:
            found = {
                name: run(command, [BARE], turns, Path(folder))[BARE]
                for name, command in ((BARE, torchrun), ("simulated", checked))
            }
    print_ratios("median step of a block, without its first ones", found, lambda steps: median(steps[WARM_UP:]))
    print_ratios("mean step of a block", found, mean)


def print_ratios(title: str, found: dict[str, list[list[float]]], typical: Any) -> None:
    print(f"{title}:")
    times = {name: [typical(steps) for steps in blocks] for name, blocks in found.items()}
    for name, each in times.items():
        values = ", ".join(f"{one * 1000:.2f}" for one in each)
        ratios = [one / bare for one, bare in zip(each, times[BARE], strict=True)]
        print(f"  {name}: {median(each) * 1000:.2f} ms ({values}), {median(ratios):.3f} times bare of the same turn")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("names", nargs="*", metavar="variant")
    chosen = parser.parse_args()
    if chosen.output:
        worker(chosen.output, chosen.names, chosen.turns)
    else:
        main(chosen.names or list(BLOCKS), chosen.turns)
