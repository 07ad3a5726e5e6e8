"""What times cost: training steps bare, checked, and checked with times, by turns in one process; prints one table.

Run it as `python bench/overlap.py` (simulated GPUs, in processor time; there "bare" is the CPU) or with
`--backend cuda` (real ones, by the clock). Two things are measured. A step: the median of blocks of steps in which each
operator is measured and kept. A whole run: some hundred steps, of which the first operators are measured
(`--timed-operators`, by default as many as `syncheck run` does), and all are checked. In the simulator nothing is
measured, and all operators are kept. What the analysis takes when the program has ended, and the page, is printed by
itself.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from overhead import mlp, transformer

from syncheck.api import checking
from syncheck.commands.timeline import picture_of
from syncheck.config.options import Options
from syncheck.report import html
from syncheck.run import run

VARIANTS = ("bare", "checking", "with times")
EVERY = 1_000_000
Make = Callable[[str], Callable[[], None]]

WORKLOADS: dict[str, dict[str, tuple[Make, int, int]]] = {
    "cuda": {
        "8-layer MLP 256, batch 64, AdamW": (mlp, 40, 1000),
        "12-layer transformer 768, bf16, 8x512, AdamW": (lambda d: transformer(768, 8, 512, device=d), 10, 400),
    },
    "sim": {
        "8-layer MLP 256, batch 64, AdamW": (mlp, 4, 200),
        "2-layer transformer 128, bf16, 2x64, AdamW": (lambda d: transformer(128, 2, 64, 2, d), 4, 200),
    },
}
"""Backend -> name -> (what makes a step on a device, steps of a block, steps of a whole run)."""


@contextmanager
def entered(variant: str, options: Options) -> Iterator[None]:
    """Check a block as a variant does."""
    if variant == "bare":
        yield
        return
    with checking(replace(options, times=variant == "with times")):
        yield


def _synchronize(options: Options, variant: str) -> None:
    if options.backend == "cuda" or variant != "bare":
        torch.cuda.synchronize()


def _seconds(step: Callable[[], None], steps: int, options: Options, variant: str) -> float:
    _synchronize(options, variant)
    clock = time.perf_counter if options.backend == "cuda" else time.process_time
    began = clock()
    for _ in range(steps):
        step()
    _synchronize(options, variant)
    return clock() - began


def _new_step(make: Make, options: Options, variant: str) -> Callable[[], None]:
    """Return a step that has run a few times, on a device of the variant."""
    torch.manual_seed(0)
    step = make("cpu" if variant == "bare" and options.backend == "sim" else "cuda")
    for _ in range(3):
        step()
    return step


def step_times(make: Make, steps: int, turns: int, options: Options) -> dict[str, float]:
    """Return the seconds of a step in each variant: medians of blocks taken by turns; every operator is measured."""
    options = replace(options, timed_operators=EVERY)
    blocks: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for _ in range(turns):
        for variant in VARIANTS:
            with entered(variant, options):
                step = _new_step(make, options, variant)
                blocks[variant].append(_seconds(step, steps, options, variant) / steps)
                del step
            gc.collect()  # what one variant leaves is not for the next one to free
    return {variant: sorted(times)[turns // 2] for variant, times in blocks.items()}


def run_times(make: Make, steps: int, turns: int, options: Options) -> dict[str, float]:
    """Return the seconds of a whole run in each variant, and those of what comes after its end."""
    found: dict[str, list[float]] = {variant: [] for variant in (*VARIANTS, "analysis and page")}
    for _ in range(turns):
        for variant in VARIANTS:
            with entered(variant, options):
                step = _new_step(make, options, variant)
                found[variant].append(_seconds(step, steps, options, variant))
                del step
                if variant == "with times":
                    found["analysis and page"].append(_page())
            gc.collect()
    return {name: sorted(times)[turns // 2] for name, times in found.items()}


def _page() -> float:
    """Return how long the page takes that the run would write when it ends."""
    job = run.active()
    assert job is not None
    assert job.recorder is not None
    report = job.report().completed()
    began = time.perf_counter()
    html.render(picture_of(job.recorder, job.sites, report))
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["sim", "cuda"], default="sim")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--timed-operators", type=int, default=Options().timed_operators)
    given = parser.parse_args()
    options = Options(backend=given.backend, devices=1, timed_operators=given.timed_operators)
    name = torch.cuda.get_device_name(0) if given.backend == "cuda" else "simulated GPUs on the CPU"
    print(f"{name}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    if given.backend == "sim":
        torch.set_num_threads(1)
    for workload, (make, steps, whole) in WORKLOADS[given.backend].items():
        one = step_times(make, steps, given.turns, options)
        print(
            f"{workload}: a step {1e3 * one['bare']:.2f} ms bare; checking {one['checking'] / one['bare']:.2f}x; "
            f"every operator measured {one['with times'] / one['checking']:.2f} of checking",
            flush=True,
        )
        all_of = run_times(make, whole, max(1, given.turns // 2), options)
        print(
            f"  {whole} steps, the first {given.timed_operators:,} operators measured: {all_of['with times']:.1f} s, "
            f"{all_of['with times'] / all_of['checking']:.3f} of checking; analysis and page "
            f"{all_of['analysis and page']:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
