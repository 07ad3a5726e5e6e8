"""`--steps` on simulated GPUs, which exist from the first line, while only findings in the window count."""

import re

import pytest

from tests import warm

PROGRAM = """
import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
side = torch.cuda.Stream()


def race():
    x = torch.ones(1024, device="cuda")
    with torch.cuda.stream(side):
        return x * 2


def racy_step(number):
    race()


def other_race():
    x = torch.ones(1024, device="cuda")
    with torch.cuda.stream(side):
        return x * 3


race()
for step in range(6):
    if step == 3:
        kept = other_race()
    model(torch.ones(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
race()
print("ended", kept.sum().item(), model.weight.device)
"""


def run(folder, steps, *options):
    (folder / "train.py").write_text(PROGRAM)
    command = ("syncheck", "run", "--backend", "sim", "--steps", steps, *options)
    return warm.run(*command, "train.py", folder=folder)


@pytest.mark.parametrize(
    ("steps", "lines"),
    [("2:5", {22}), ("4:6", set()), ("0:1", {12}), ("3:4", {22}), ("6:", {12}), ("3:", {12, 22})],
)
def test_findings_outside_the_window_do_not_count(tmp_path, steps, lines):
    done = run(tmp_path, steps, "--output-format", "concise")
    assert "ended" in done.stdout, done.stderr
    assert "cuda:0" in done.stdout
    found = re.findall(r"train\.py:(\d+):\d+: SYN", done.stdout + done.stderr)
    assert {int(line) for line in found} == lines
    assert done.returncode == (1 if lines else 0)


def test_a_window_that_never_begins_is_not_a_clean_run(tmp_path):
    done = run(tmp_path, "10:12")
    assert "nothing to check: the program ended before the steps of --steps" in done.stderr
    assert "--steps begins with step 10, but only 6 steps ran" in done.stderr
    assert "SYN" not in done.stdout + done.stderr
    assert "no findings" not in done.stderr
    assert done.returncode == 3


def test_fail_fast_waits_for_the_window(tmp_path):
    done = run(tmp_path, "3:", "--fail-fast")
    assert "ended" not in done.stdout
    assert done.returncode == 1
