"""What the simulator costs: a small training loop on the CPU, plain and on a virtual GPU; prints both and the ratio.

Run it as `python bench/simulator.py`.
"""

import time

import torch
from torch import nn

from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable
from syncheck.sanitizer.session import Session
from syncheck.sim.backend import Simulator

STEPS = 200


def train(device: str) -> float:
    """Return the seconds of CPU time that 200 steps of a three-layer network take."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(64, 64).to(device), torch.randint(10, (64,)).to(device)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    step()  # the first one imports what it needs
    began = time.process_time()
    for _ in range(STEPS):
        step()
    return time.process_time() - began


def simulated() -> float:
    """Return the same on a virtual GPU, fully checked."""
    findings = NewFindings()
    session = Session(lambda _: True, "2 simulated GPUs", findings.add)
    simulator = Simulator(2, session, SiteTable(), session.note, findings, lambda: None)
    with simulator.watching():
        seconds = float(train("cuda:1"))
        simulator.finish()
    return seconds


def main() -> None:
    torch.set_num_threads(1)
    plain = min(train("cpu") for _ in range(3))
    checked = min(simulated() for _ in range(3))
    print(f"plain CPU: {plain:.3f} s   virtual GPU, checked: {checked:.3f} s   ratio: {checked / plain:.1f}")


if __name__ == "__main__":
    main()
