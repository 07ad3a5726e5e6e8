"""Cost of checking a DistributedDataParallel training step, compared with the same step unchecked.

Run it as `python bench/ddp.py`. It uses two ranks with NCCL on two GPUs, or one rank on one GPU. Without a GPU, it
compares two ranks on simulated GPUs with two on the CPU with gloo. All variants take turns.

`--budget` compares whole runs of many steps instead: unchecked, and under `syncheck run --budget 5%`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TURNS = 2
TURNS_WITH_BUDGET = 5
STEPS = 60
STEPS_WITH_BUDGET = 1500
WARM_UP = 20
SYNCHECK = [sys.executable, "-m", "syncheck", "run", "--output-format", "json"]


def worker(output: Path, steps: int) -> None:
    """Train, and write the median and the mean time of a step in seconds."""
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
    for _ in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if has_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        output.write_text(json.dumps([median(seconds[WARM_UP:]), mean(seconds[WARM_UP:])]))
    dist.destroy_process_group()


def run(command: list[str], folder: Path, steps: int = STEPS) -> tuple[float, float]:
    """Run the worker under a command and return the median and the mean time of its steps in seconds."""
    output = folder / "seconds.json"
    subprocess.run(
        [*command, __file__, "--output", str(output), "--steps", str(steps)], check=True, capture_output=True
    )
    typical, average = json.loads(output.read_text())
    return typical, average


def compare_recorders(bare: list[str], checked: list[str], folder: Path) -> None:
    """Print the median step of each variant."""
    variants = {"bare": bare}
    if torch.cuda.is_available():
        variants |= {f"{kind} recorder": [*checked, "--recorder", kind] for kind in ("python", "native")}
    else:
        variants["checked"] = checked
    print_ratios({name: [one[0] for one in runs] for name, runs in in_turns(variants, folder, STEPS, TURNS).items()})


def compare_with_budget(bare: list[str], checked: list[str], folder: Path) -> None:
    """Print the mean step of whole runs, and what the report says about the budget."""
    report = folder / "report.json"
    with_budget = [*checked[: checked.index("--output")], "--output", str(report), "--budget", "5%"]
    runs = in_turns({"bare": bare, "budget 5%": with_budget}, folder, STEPS_WITH_BUDGET, TURNS_WITH_BUDGET)
    print_ratios({name: [one[1] for one in pairs] for name, pairs in runs.items()})
    for note in json.loads(report.read_text())["notes"]:
        print(note)


def in_turns(
    variants: dict[str, list[str]], folder: Path, steps: int, turns: int
) -> dict[str, list[tuple[float, float]]]:
    """Run each variant in each turn, and return the results of `run`."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for _ in range(turns):
        for name, command in variants.items():
            found[name].append(run(command, folder, steps))
    return found


def print_ratios(found: dict[str, list[float]]) -> None:
    bare = median(found["bare"])
    for name, seconds in found.items():
        each = ", ".join(f"{one * 1000:.2f}" for one in seconds)
        print(f"{name}: {median(seconds) * 1000:.2f} ms ({each}), {median(seconds) / bare:.3f}")


def main(*, with_budget: bool) -> None:
    ranks = str(min(2, torch.cuda.device_count()) or 2)
    bare = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks]
    checked = [*SYNCHECK, "--nproc", ranks, "--output", "/dev/null"]
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "simulated GPUs against the CPU"
    print(f"a step of DDP (8 layers of 256, batch 64, AdamW), ranks: {ranks}, {where}:")
    with tempfile.TemporaryDirectory() as folder:
        (compare_with_budget if with_budget else compare_recorders)(bare, checked, Path(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--budget", action="store_true")
    chosen = parser.parse_args()
    if chosen.output:
        worker(chosen.output, chosen.steps)
    else:
        main(with_budget=chosen.budget)
