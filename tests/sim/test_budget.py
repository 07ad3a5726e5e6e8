"""`--budget` on simulated GPUs, which exist from the first line, while only windows of the program are checked."""

import json
import re

import pytest

from tests import warm

PROGRAM = """
import sys
import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
side = torch.cuda.Stream()
done = torch.cuda.Event()
pinned = torch.zeros(64).pin_memory()


def race():
    x = torch.ones(64, device="cuda")
    with torch.cuda.stream(side):
        return x * 2


def step():
    model(torch.ones(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


{body}
print("ended", model.weight.device)
"""


@pytest.fixture
def run(tmp_path):
    def run(body, *options, table=""):
        (tmp_path / "train.py").write_text(PROGRAM.replace("{body}", body))
        (tmp_path / "pyproject.toml").write_text(f"[tool.syncheck]\n{table}\n")
        options = ("--backend", "sim", "--output-format", "json", "--output", "report.json", *options)
        done = warm.run("syncheck", "run", *options, "train.py", folder=tmp_path)
        path = tmp_path / "report.json"
        report = json.loads(path.read_text()) if path.exists() else None
        return done, report

    return run


EACH_STEP = "for _ in range(40):\n    race()\n    step()"


def test_a_race_in_every_step_is_found(run):
    done, report = run(EACH_STEP, "--budget", "5%")
    assert "ended cuda:0" in done.stdout, done.stderr
    assert done.returncode == 1
    assert {finding["rule"] for finding in report["findings"]} >= {"SYN101"}
    (note,) = report["notes"]
    assert re.match(r"budget 5%: \d+ of 40 steps were checked \(.*%\) in \d+ windows?, .* checking cost about", note)


def test_a_race_before_the_first_step_is_outside_all_windows(run):
    done, report = run("race()\nfor _ in range(40):\n    step()", "--budget", "50%")
    assert (done.returncode, report["findings"], report["incomplete"]) == (0, [], [])
    assert 0 < report["summary"]["operators"] < 40 * 20


def test_the_first_window_can_stop_the_program(run):
    done, _ = run(EACH_STEP, "--budget", "1%", "--fail-fast")
    assert "ended" not in done.stdout
    assert done.returncode == 1


def test_a_program_with_too_few_steps_is_reported_as_unchecked(run):
    done, report = run("race()\nstep()", "--budget", "5%")
    assert "ended" in done.stdout
    assert "check short programs without --budget" in report["incomplete"][0]


PENDING = {
    "memory from before, never waited for": """
x = torch.ones(64, device="cuda")
for n in range(40):
    with torch.cuda.stream(side):
        y = x * n
    step()
""",
    "recorded at the end of a step, waited for at the beginning of the next": """
for n in range(40):
    side.wait_event(done)
    with torch.cuda.stream(side):
        y = torch.ones(8, device="cuda")
    step()
    done.record()
""",
    "waited for before a step, used after it": """
for n in range(40):
    x = torch.ones(64, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    step()
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
""",
    "copied before a step, read after it and a wait": """
for n in range(40):
    pinned.copy_(torch.ones(64, device="cuda"), non_blocking=True)
    done.record()
    step()
    done.synchronize()
    pinned.sum().item()
""",
    "freed after the step that followed its use": """
x = torch.ones(64, device="cuda")
for n in range(40):
    x.record_stream(side)
    step()
    x = torch.ones(64, device="cuda")
""",
}


@pytest.mark.parametrize("body", PENDING.values(), ids=PENDING)
def test_work_pending_at_the_edge_of_a_window_is_not_reported(run, body):
    done, report = run(body, "--budget", "60%")
    assert "ended" in done.stdout, done.stderr
    assert [finding["rule"] for finding in report["findings"]] == []


def test_the_budget_can_be_set_in_pyproject(run):
    _, report = run(EACH_STEP, table='budget = "20%"')
    assert report["notes"][0].startswith("budget 20%")
    _, report = run(EACH_STEP, table="budget = 0.2")
    assert report["notes"][0].startswith("budget 20%")


@pytest.mark.parametrize("value", ["5", "0", "true", '"abc"', "[1]"])
def test_an_invalid_budget_in_pyproject_gives_an_example(run, value):
    done, report = run(EACH_STEP, table=f"budget = {value}")
    assert (done.returncode, report) == (2, None)
    assert "5%" in done.stderr
    assert "Traceback" not in done.stderr


SERVICE = """
import time
import torch

side = torch.cuda.Stream()
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).cuda()
{before}
end = time.process_time() + 6
while time.process_time() < end:
    y = model(torch.ones(4, 8, device="cuda"))
    with torch.cuda.stream(side):
        z = y * 2
"""
EARLY = """
import sys
from syncheck.cli.app import main
from syncheck.run import sampled

sampled.FIRST_TICK = 0.01
sys.argv = "syncheck run --backend sim --budget 5% --output-format json --output report.json serve.py".split()
main()
"""


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)  # a busy machine may leave no time for a window
@pytest.mark.parametrize("before", ["", "torch.optim.SGD(model.parameters(), lr=0.1)"], ids=["without", "with"])
def test_a_service_without_steps_is_checked_by_time_unless_it_has_an_optimizer(before, tmp_path):
    (tmp_path / "serve.py").write_text(SERVICE.format(before=before))
    (tmp_path / "early.py").write_text(EARLY)
    done = warm.run("early", folder=tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    rules = {finding["rule"] for finding in report["findings"]}
    if before:
        assert (done.returncode, rules) == (3, set())  # nothing was checked
        assert "mark work other than training" in report["incomplete"][0]
    else:
        assert done.returncode == 1, done.stderr
        assert "SYN101" in rules
        assert "of processor time were checked" in report["notes"][0]
