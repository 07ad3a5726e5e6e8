"""Cost of the simulator: runs two training loops on the CPU and on a virtual GPU, and prints both times and the ratio.

The first loop is so small that call overhead dominates; the second is about as large as is practical on a CPU. Both
take turns, and the minimum of their processor times counts. Run it as `python bench/simulator.py`.
"""

import time
from collections.abc import Callable

import torch
from torch import nn

from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable
from syncheck.sanitizer.session import Session
from syncheck.sim.backend import Simulator

STEPS = 200
TURNS = 5


def small(device: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a three-layer network, its input and its targets."""
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*layers).to(device), torch.randn(64, 64).to(device), torch.randint(10, (64,)).to(device)


class Block(nn.Module):
    """A transformer block like that of nanoGPT."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input of the next block."""
        n_rows, length, width = x.shape
        parts = self.attention(self.before(x)).view(n_rows, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        made = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(made.transpose(1, 2).reshape(n_rows, length, width))
        return x + self.mlp(self.between(x))


def transformer(device: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a transformer with six layers and 10.7 million parameters, its input and its targets."""
    blocks = [Block(384, 6) for _ in range(6)]
    model = nn.Sequential(nn.Embedding(65, 384), *blocks, nn.LayerNorm(384), nn.Linear(384, 65), nn.Flatten(0, 1))
    return model.to(device), torch.randint(65, (4, 128)).to(device), torch.randint(65, (512,)).to(device)


def train(device: str, make: Callable[[str], tuple[nn.Module, torch.Tensor, torch.Tensor]] = small) -> float:
    """Return the processor time in seconds of some training steps."""
    torch.manual_seed(0)
    model, x, y = make(device)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    step()  # the first step does lazy imports
    began = time.process_time()
    for _ in range(STEPS if make is small else STEPS // 50):
        step()
    return time.process_time() - began


def simulated(make: Callable[[str], tuple[nn.Module, torch.Tensor, torch.Tensor]] = small) -> float:
    """Return the processor time of the same steps on a virtual GPU, fully checked."""
    findings = NewFindings()
    session = Session(lambda _: True, "2 simulated GPUs", findings.add)
    simulator = Simulator(2, session, SiteTable(), session.note, findings, lambda: None)
    with simulator.watching():
        seconds = float(train("cuda:1", make))
        simulator.finish()
    return seconds


def main() -> None:
    torch.set_num_threads(1)
    for make in (small, transformer):
        times = [(train("cpu", make), simulated(make)) for _ in range(TURNS)]
        plain, checked = (min(column) for column in zip(*times, strict=True))
        print(f"{make.__name__}: plain CPU: {plain:.3f} s   checked: {checked:.3f} s   ratio: {checked / plain:.2f}")


if __name__ == "__main__":
    main()
