"""Cost and benefit of a budget: alternates bare, checked and budgeted steps in one process and prints JSON.

Run it as `python bench/budget.py` on a GPU; it takes about 75 seconds. `--backend sim --small --seconds 1` tests it
without a GPU. Its ratios are then meaningless because simulated GPUs are compared with the CPU.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

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
        """Return the milliseconds per step of a variant, and the watch's own statistics."""
        torch.manual_seed(0)
        with self.variant(name) as (device, request, watch):
            step = self.make(device)
            for _ in range(5):
                with request():
                    step()
            synchronize(device)
            began, steps = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                for _ in range(5):
                    with request():
                        step()
                steps += 5
                synchronize(device)  # drain the GPU, equally often in each variant
            spent = time.perf_counter() - began
            found = {"ms": spent / steps * 1000, "steps": steps}
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
        """Return the measurements. The bare steps run before and after the others, because GPU clocks drift."""
        seconds = self.options.seconds
        before = self.measure("bare", seconds / 4)
        checked = self.measure("checked", seconds / 8)
        budget = self.measure("budget", seconds / 2)
        after = self.measure("bare", seconds / 8)
        bare = (before["ms"] + after["ms"]) / 2
        return {
            "workload": self.name,
            "bare ms": [round(before["ms"], 4), round(after["ms"], 4)],
            "checked ratio": round(checked["ms"] / bare, 3),
            "budget ratio": round(budget["ms"] / bare, 4),
            "budget": {key: round(value, 5) for key, value in budget.items()},
            "steps until found": self.steps_until_found(500),
        }


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--budget", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds per workload")
    parser.add_argument("--small", action="store_true", help="use small models, to test without a GPU")
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    options = parser.parse_args()
    gpu = torch.cuda.get_device_name(0) if options.backend == "cuda" else "simulated"
    table = {"gpu": gpu, "torch": torch.__version__, "python": sys.version.split()[0], "budget": options.budget}
    table["workloads"] = [Bench(name, options).run() for name in options.workloads]
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
