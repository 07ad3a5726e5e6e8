"""Cost of checking a DistributedDataParallel training step, compared with the same step unchecked.

Run it as `python bench/ddp.py`. It uses two ranks with NCCL on two GPUs, or one rank on one GPU. Without a GPU, it
compares two ranks on simulated GPUs with two on the CPU with gloo. All variants take turns.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TURNS = 2
SYNCHECK = [sys.executable, "-m", "syncheck", "run", "--output-format", "json"]


def worker(output: Path) -> None:
    """Train, and write the median time of a step in seconds."""
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    width, layers, batch = 256, 8, 64
    modules = [layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*modules).to(device))
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(batch, width, device=device)
    seconds = []
    for _ in range(60):
        began = time.perf_counter()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if has_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        output.write_text(json.dumps(median(seconds[20:])))
    dist.destroy_process_group()


def run(command: list[str], folder: Path) -> float:
    output = folder / "seconds.json"
    subprocess.run([*command, __file__, "--output", str(output)], check=True, capture_output=True)
    return float(json.loads(output.read_text()))


def main() -> None:
    ranks = str(min(2, torch.cuda.device_count()) or 2)
    checked = [*SYNCHECK, "--nproc", ranks, "--output", "/dev/null"]
    variants = {"bare": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks]}
    if torch.cuda.is_available():
        variants |= {f"{kind} recorder": [*checked, "--recorder", kind] for kind in ("python", "native")}
        where = torch.cuda.get_device_name()
    else:
        variants["checked"] = checked
        where = "simulated GPUs against the CPU"
    found: dict[str, list[float]] = {name: [] for name in variants}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TURNS):
            for name, command in variants.items():
                found[name].append(run(command, Path(folder)))
    print(f"a step of DDP (8 layers of 256, batch 64, AdamW), ranks: {ranks}, {where}:")
    bare = median(found["bare"])
    for name, seconds in found.items():
        print(f"{name}: {median(seconds) * 1000:.2f} ms, {median(seconds) / bare:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    if chosen.output:
        worker(chosen.output)
    else:
        main()
