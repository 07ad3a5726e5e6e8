"""Cost of measuring times: alternates bare, checked, and checked and timed training steps in one process.

Run it as `python bench/overlap.py` for simulated GPUs, measured in processor time with the CPU as "bare", or with
`--backend cuda` for real ones, measured in wall-clock time. It measures two things. A step: the median over blocks of
steps in which every operator is timed and kept. A whole run: some hundred steps, of which the first operators are timed
(`--timed-operators`, by default as many as `syncheck run` times) and all are checked. In the simulator, operators are
not timed, and all are kept. The time of the analysis after the program has ended, and of the page, is printed
separately.
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
"""Backend -> name -> (function that makes a step for a device, steps per block, steps per whole run)."""


@contextmanager
def entered(variant: str, options: Options) -> Iterator[None]:
    """Enter the check of a variant, if it has one."""
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
    """Return a warmed-up step on the variant's device."""
    torch.manual_seed(0)
    step = make("cpu" if variant == "bare" and options.backend == "sim" else "cuda")
    for _ in range(3):
        step()
    return step


def step_times(make: Make, steps: int, turns: int, options: Options) -> dict[str, float]:
    """Return the seconds per step of each variant: medians of alternating blocks in which every operator is timed."""
    options = replace(options, timed_operators=EVERY)
    blocks: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for _ in range(turns):
        for variant in VARIANTS:
            with entered(variant, options):
                step = _new_step(make, options, variant)
                blocks[variant].append(_seconds(step, steps, options, variant) / steps)
                del step
            gc.collect()  # so that the next variant does not have to free this one's garbage
    return {variant: sorted(times)[turns // 2] for variant, times in blocks.items()}


def run_times(make: Make, steps: int, turns: int, options: Options) -> dict[str, float]:
    """Return the seconds of a whole run for each variant, and of the analysis and page after its end."""
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
    """Return the seconds needed to create the page that a run would write at its end."""
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
            f"{workload}: bare step {1e3 * one['bare']:.2f} ms; checking {one['checking'] / one['bare']:.2f}x; "
            f"timing every operator {one['with times'] / one['checking']:.2f}x of checking",
            flush=True,
        )
        all_of = run_times(make, whole, max(1, given.turns // 2), options)
        print(
            f"  {whole} steps, the first {given.timed_operators:,} operators timed: {all_of['with times']:.1f} s, "
            f"{all_of['with times'] / all_of['checking']:.3f}x of checking; analysis and page "
            f"{all_of['analysis and page']:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
