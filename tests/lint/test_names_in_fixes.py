"""Fixes name only what is bound at their line, also in the first iteration of a loop and on every branch."""

import pytest

from syncheck.lint.engine import all_rules
from syncheck.lint.fixes.repair import repair
from tests import warm

IN_A_LOOP = """
import torch
side = torch.cuda.Stream()
x = torch.ones(16, device="cuda")
host = torch.empty(16, pin_memory=True)
for i in range(3):
    {first}
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        {work}
        done = side.record_event()
torch.cuda.synchronize()
"""
IN_A_FUNCTION = """
import torch

def train(n):
    x = torch.ones(16, device="cuda")
    for i in range(n):
        x.add_(1)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x.to("cpu", non_blocking=True)
    torch.cuda.synchronize()

train(3)
"""
IN_ANOTHER_METHOD = """
import torch

class Trainer:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.x = torch.ones(16, device="cuda")

    def step(self):
        self.x.add_(1)
        self.snap()

    def snap(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.y = self.x.to("cpu", non_blocking=True)
            self.done = self.side.record_event()

trainer = Trainer()
for _ in range(3):
    trainer.step()
torch.cuda.synchronize()
"""
IN_A_BRANCH = """
import sys
import torch
x = torch.ones(8, device="cuda")
if len(sys.argv) > 1:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
else:
    y = x * 3
print(y.sum().item())
"""


@pytest.mark.parametrize(
    "source",
    [
        IN_A_LOOP.format(first="x.add_(1)", work='y = x.to("cpu", non_blocking=True)'),
        IN_A_LOOP.format(first="host.fill_(i)", work="x.copy_(host, non_blocking=True)"),
        IN_A_FUNCTION,
        IN_ANOTHER_METHOD,
        IN_A_BRANCH,
    ],
)
def test_a_fixed_program_still_runs(tmp_path, source):
    done = repair("train.py", source, unsafe=True, codes=frozenset(rule.code for rule in all_rules()))
    assert done.findings
    (tmp_path / "train.py").write_text(done.source)
    run = warm.run("syncheck", "run", "--backend", "sim", "train.py", folder=tmp_path)
    assert run.returncode == 0, run.stderr
