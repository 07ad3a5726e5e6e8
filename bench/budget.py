"""Cost and benefit of a budget: alternates bare, checked and budgeted steps in one process and prints JSON.

Run it as `python bench/budget.py` on a GPU; it takes about five minutes. `--backend sim --small --seconds 1` tests it
without a GPU. Its ratios are then meaningless because simulated GPUs are compared with the CPU.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median

import torch
from overhead import Block, mlp, transformer
from torch import nn

import syncheck
from syncheck.run.service import Watch

Step = Callable[[], None]
Request = Callable[[], AbstractContextManager[None]]


def inference(device: str, *, is_small: bool) -> Step:
    """Return a function that sends one request of batch 1 and length 128 to a 12-layer transformer."""
    width, layers = (64, 2) if is_small else (768, 12)
    model = nn.Sequential(*[Block(width, width // 64) for _ in range(layers)]).to(device).eval()
    x = torch.randn(1, 128, width).to(device)

    def request() -> None:
        with torch.inference_mode():
            model(x).mean().item()

    return request


def training(name: str, device: str, *, is_small: bool) -> Step:
    """Return a training step of a workload."""
    if name == "mlp":
        return mlp(device)
    return transformer(64, 2, 16, 2, device) if is_small else transformer(768, 8, 512, 12, device)


GROUP = 5
"""Number of steps between two synchronizations."""
WORKLOADS = ("mlp", "transformer", "inference")


class Bench:
    """Measures one workload.

    Args:
        name: name of the workload.
        options: parsed command line.
    """

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name = name
        self.options = options
        self.steps: dict[str, Step] = {}  # by device: all blocks use one model

    def make(self, device: str) -> Step:
        """Return a step of the workload."""
        make = inference if self.name == "inference" else lambda *a, **k: training(self.name, *a, **k)
        return make(device, is_small=self.options.small)

    @contextmanager
    def variant(self, name: str) -> Iterator[tuple[str, Request, Watch | None]]:
        """Enter a variant. Yield the device of its tensors, the context of a request, and the watch, if any."""
        backend = self.options.backend
        if name == "checked":
            with syncheck.check(backend=backend):
                yield "cuda", nullcontext, None
        elif name == "budget":
            with syncheck.watch(backend=backend, budget=self.options.budget) as watch:
                yield "cuda", watch.request if self.name == "inference" else nullcontext, watch
        else:
            yield "cuda" if backend == "cuda" else "cpu", nullcontext, None

    def measure(self, name: str, seconds: float) -> dict[str, float]:
        """Return the milliseconds per step of a variant, those of steps outside windows, and the watch's statistics."""
        torch.manual_seed(0)
        with self.variant(name) as (device, request, watch):
            step = self.steps.get(device) or self.steps.setdefault(device, self.make(device))
            for _ in range(GROUP):
                with request():
                    step()
            synchronize(device)
            groups: list[float] = []
            outside: list[float] = []
            while sum(groups) < seconds:
                began, before = time.perf_counter(), watch.share if watch else None
                for _ in range(GROUP):
                    with request():
                        step()
                synchronize(device)  # drain the GPU, equally often in each variant
                groups.append(time.perf_counter() - began)
                if watch is None or (watch.share.checked, watch.share.windows) == (before.checked, before.windows):
                    outside.append(groups[-1])
            found = {
                "ms": sum(groups) / len(groups) / GROUP * 1000,
                "outside ms": median(outside) / GROUP * 1000,
                "steps": len(groups) * GROUP,
            }
            if watch is not None:
                share = watch.share
                found |= {
                    "windows": share.windows,
                    "checked steps": share.checked / max(1, share.units),
                    "checked time": share.checked_seconds / max(1e-9, share.seconds),
                    "reported cost": share.cost / max(1e-9, share.seconds - share.cost),
                }
            return found

    def steps_until_found(self, most: int) -> int | None:
        """Return how many steps it takes to find a race that occurs in each step, or None if it is not found."""
        with self.variant("budget") as (device, request, watch):
            step, side = self.make(device), torch.cuda.Stream()
            for number in range(1, most + 1):
                with request():
                    x = torch.ones(1 << 16, device=device)
                    with torch.cuda.stream(side):
                        y = x * 2
                    step()
                    del x, y
                if watch.share.windows and any(finding.rule.code == "SYN101" for finding in watch.findings):
                    return number
        return None

    def run(self) -> dict[str, object]:
        """Return the measurements. Bare steps run before and after those within the budget in each turn."""
        seconds = self.options.seconds
        for name in ("budget", "bare"):  # compile the native recorder, and create the models
            self.measure(name, seconds / 8)
        bare, budgets, ratios, outside = [], [], [], []
        for _ in range(self.options.turns):
            before, budget, after = (
                self.measure(*block) for block in (("bare", seconds / 2), ("budget", seconds), ("bare", seconds / 2))
            )
            budgets.append(budget)
            bare += [before["ms"], after["ms"]]
            ratios.append(budget["ms"] * 2 / (before["ms"] + after["ms"]))
            outside.append(budget["outside ms"] * 2 / (before["outside ms"] + after["outside ms"]))
        checked = self.measure("checked", seconds / 4)["ms"]
        return {
            "workload": self.name,
            "bare ms": [round(ms, 4) for ms in bare],
            "checked ratio": round(checked / median(bare), 3),
            "budget ratio": round(median(ratios), 4),
            "budget ratios": [round(ratio, 4) for ratio in ratios],
            "outside windows": round(median(outside), 4),
            "outside windows, each": [round(ratio, 4) for ratio in outside],
            "budget": {key: round(median(each[key] for each in budgets), 5) for key in budgets[0]},
            "steps until found": self.steps_until_found(500),
        }


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--budget", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds within the budget per turn")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="use small models, to test without a GPU")
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    options = parser.parse_args()
    gpu = torch.cuda.get_device_name(0) if options.backend == "cuda" else "simulated"
    table = {"gpu": gpu, "torch": torch.__version__, "python": sys.version.split()[0], "budget": options.budget}
    table["workloads"] = [Bench(name, options).run() for name in options.workloads]
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
