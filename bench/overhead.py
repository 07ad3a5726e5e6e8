"""Cost of checking on a real GPU: compares bare steps with steps under an empty dispatch mode, under syncheck (with
either recorder, and within a budget), and under torch's own sanitizer. Prints one table. All but the last take turns in
one process.

Run it as `python bench/overhead.py`. `--memory` runs 10,000 checked training steps and prints the process's peak size.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

Step = Callable[[], None]
PEER = "torch's sanitizer"  # it cannot be disabled again
BARE, BUDGET = "bare", "budget 5%"
VARIANTS = (BARE, "empty mode", "Python recorder", "native recorder", BUDGET, PEER)
BUDGET_SECONDS, BUDGET_TURNS = 2.0, 7
"""Minimum duration of a block within the budget, which must have several windows, and number of such blocks."""


class EmptyMode(TorchDispatchMode):
    """The minimum cost of any dispatch mode."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Block(nn.Module):
    """A transformer layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def mlp(device: str = "cuda") -> Step:
    """Return a training step of an 8-layer MLP of width 256 with batch 64."""
    layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(256, 10)).to(device)
    x, y = torch.randn(64, 256).to(device), torch.randint(10, (64,)).to(device)
    return _step(model, lambda: nn.functional.cross_entropy(model(x), y))


def transformer(width: int, batch: int, length: int, layers: int = 12, device: str = "cuda") -> Step:
    """Return a training step of a transformer in bfloat16."""
    model = nn.Sequential(*[Block(width, width // 64) for _ in range(layers)]).to(device).bfloat16()
    x = torch.randn(batch, length, width, dtype=torch.bfloat16).to(device)
    return _step(model, lambda: model(x).float().pow(2).mean())


def prefetching(width: int = 768, batch: int = 8, length: int = 512) -> Step:
    """Return a training step of the transformer whose batches are copied from pinned memory on a side stream."""
    model = nn.Sequential(*[Block(width, width // 64) for _ in range(12)]).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    side = torch.cuda.Stream()
    host = torch.randn(batch, length, width, dtype=torch.bfloat16).pin_memory()

    def fetch():
        with torch.cuda.stream(side):
            return host.to("cuda", non_blocking=True)

    waiting = [fetch()]

    def step():
        torch.cuda.current_stream().wait_stream(side)
        x = waiting.pop()
        x.record_stream(torch.cuda.current_stream())
        waiting.append(fetch())
        optimizer.zero_grad()
        model(x).float().pow(2).mean().backward()
        optimizer.step()

    return step


def inference(width: int = 768, batch: int = 1, length: int = 128) -> Step:
    """Return a request to a 12-layer transformer, whose result the host reads."""
    model = nn.Sequential(*[Block(width, width // 64) for _ in range(12)]).cuda().eval()
    x = torch.randn(batch, length, width, device="cuda")

    def request():
        with torch.inference_mode():
            model(x).mean().item()

    return request


def graph(width: int = 768) -> Step:
    """Return the same request, replayed as a CUDA graph on an input that is copied to the GPU."""
    model = nn.Sequential(*[Block(width, width // 64) for _ in range(12)]).cuda().eval()
    host = torch.randn(1, 128, width)
    x = host.cuda()
    with torch.inference_mode():
        model(x)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            y = model(x).mean()

    def request():
        x.copy_(host)
        captured.replay()
        y.item()

    return request


def _step(model: nn.Module, loss: Callable[[], torch.Tensor]) -> Step:
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


WORKLOADS: dict[str, tuple[Callable[[], Step], int]] = {
    "8-layer MLP 256, batch 64, AdamW": (mlp, 40),
    "12-layer transformer 768, bf16, 8x512, AdamW": (lambda: transformer(768, 8, 512), 10),
    "the same, batches from pinned memory on a second stream": (prefetching, 10),
    "inference, 12-layer transformer 768, 1x128": (inference, 40),
    "the same as a CUDA graph": (graph, 40),
    "inference, 12-layer transformer 2048, 8x512, which waits for its GPU": (lambda: inference(2048, 8, 512), 10),
    "12-layer transformer 2048, bf16, 16x1024, AdamW (GPU-bound)": (lambda: transformer(2048, 16, 1024), 3),
}


@contextmanager
def entered(variant: str, step: Step, *, is_request: bool = False) -> Iterator[Step]:
    """Enter the mode that a variant measures. Yield the step to measure."""
    if variant == "empty mode":
        with EmptyMode():
            yield step
    elif variant == BUDGET:
        import syncheck

        with syncheck.watch(budget=0.05) as watch:

            def request() -> None:
                with watch.request():
                    step()

            yield request if is_request else step
    elif variant.endswith("recorder"):
        from syncheck.api import checking
        from syncheck.config.options import Options

        with checking(Options(backend="cuda", recorder=variant.partition(" ")[0].lower())):
            yield step
    else:
        if variant == PEER:
            from torch.cuda import _sanitizer

            _sanitizer.enable_cuda_sanitizer()
        yield step


def measure(variants: list[str], workload: str, *, profile: bool) -> dict[str, float]:
    """Return the milliseconds per step of each variant: medians of alternating blocks, 15 each (5 for one variant)."""
    make, steps = WORKLOADS[workload]
    torch.manual_seed(0)
    step = make()
    blocks: dict[str, list[float]] = {variant: [] for variant in variants}
    for turn in range(15 if len(variants) > 1 else 5):
        for variant in variants:
            if variant == BUDGET and turn >= BUDGET_TURNS:
                continue
            with entered(variant, step, is_request=step.__name__ == "request") as measured:
                for _ in range(4):
                    measured()
                torch.cuda.synchronize()
                if profile:
                    _profile(measured, steps)
                least = BUDGET_SECONDS if variant == BUDGET else 0.0
                blocks[variant].append(_milliseconds(measured, steps, least))
    return {variant: median(times) for variant, times in blocks.items()}


def _milliseconds(step: Step, steps: int, least: float) -> float:
    """Return the mean duration of some steps, repeated until they have taken at least some seconds."""
    began, n = time.perf_counter(), 0
    while not n or time.perf_counter() - began < least:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        n += steps
    return (time.perf_counter() - began) / n * 1000


def _profile(step: Step, steps: int) -> None:
    import cProfile
    import pstats

    with cProfile.Profile() as profile:
        for _ in range(steps):
            step()
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def memory() -> None:
    """Run 10,000 checked training steps and print the process's peak size along the way."""
    with entered("native recorder", mlp()) as step:
        for number in range(1, 10_001):
            step()
            if number % 1000 == 0:
                torch.cuda.synchronize()
                size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                print(f"{number:6} steps: {size:.1f} MiB peak, {torch.cuda.memory_allocated() >> 10} KiB on the GPU")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", nargs="+", metavar="WORKLOAD VARIANT...")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="variants to compare")
    parser.add_argument("--small", action="store_true", help="skip the GPU-bound step")
    options = parser.parse_args()
    if options.memory:
        memory()
        return
    if options.one:
        print(json.dumps(measure(options.one[1:], options.one[0], profile=options.profile)))
        return
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    for workload in list(WORKLOADS)[: -1 if options.small else None]:
        times = {}
        wanted = [variant for variant in VARIANTS if variant in options.only]
        for variants in ([v for v in wanted if v != PEER], [v for v in wanted if v == PEER]):
            if not variants:
                continue
            command = [sys.executable, __file__, "--one", workload, *variants]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = done.stdout.strip().splitlines()
            if done.returncode:
                print(done.stderr[-800:], file=sys.stderr)
            failed = dict.fromkeys(variants, float("nan"))
            times |= json.loads(lines[-1]) if lines and not done.returncode else failed
        ratios = "  ".join(f"{variant} {times[variant] / times[BARE]:.2f}x" for variant in times)
        print(f"{workload}: bare {times[BARE]:.2f} ms; {ratios}", flush=True)


if __name__ == "__main__":
    main()
