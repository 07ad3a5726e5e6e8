"""`syncheck run --witness` reports the effect of a race, and a schedule replays it."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests import warm

RACE = """
import torch
side = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2
print("sum", (y + 1).sum().item())
"""
GOOD = RACE.replace("print(", "torch.cuda.current_stream().wait_stream(side)\nprint(")
FREED = """
import torch
side = torch.cuda.Stream()
x = torch.ones(1000, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x + 1
del x
z = torch.zeros(1000, device="cuda")
torch.cuda.current_stream().wait_stream(side)
print(y.sum().item())
"""
HOST = """
import torch
x = torch.ones(4, device="cuda")
host = torch.zeros(4).pin_memory()
host.copy_(x, non_blocking=True)
print(host.tolist())
torch.cuda.synchronize()
"""
UNUSED = """
import torch
side = torch.cuda.Stream()
x = torch.zeros(4, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    x.add_(0)
x.mul_(1)
torch.cuda.synchronize()
print(x.sum().item())
"""
RESIZED = """
import torch

side = torch.cuda.Stream()
weight = torch.zeros(4096, device="cuda")
torch.cuda.synchronize()
sums = []
for step in range(4):
    with torch.cuda.stream(side):
        weight.untyped_storage().resize_(4 * 4096)
        weight.fill_(step)
    torch.cuda.current_stream().wait_stream(side)
    sums.append(weight * 2)
    weight.record_stream(torch.cuda.current_stream())
    weight.untyped_storage().resize_(0)
    with torch.cuda.stream(side):
        other = torch.ones(4096, device="cuda")
print([total.sum().item() for total in sums])
"""
REGROWN = """
import torch

side = torch.cuda.Stream()
x = torch.ones(4096, device="cuda")
low = torch.zeros(4096, dtype=torch.bfloat16, device="cuda")
torch.cuda.synchronize()
low.untyped_storage().resize_(0)
for step in range(3):
    x.mul_(2)
    with torch.cuda.stream(side):
        low.untyped_storage().resize_(2 * 4096)
        low.copy_(x)
    torch.cuda.current_stream().wait_stream(side)
    print((low * 2).sum().item())
    low.untyped_storage().resize_(0)
"""
OVERWRITTEN = """
import torch
side = torch.cuda.Stream()
x, y = torch.zeros(4, device="cuda"), torch.ones(4, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    x.add_(1)  # line 7, which reads x, too
{}
torch.cuda.synchronize()
print(x.sum().item())
"""
LSTM = """
import torch

layer = torch.nn.LSTM(3, 3).cuda()
x = torch.randn(2, 5, 3).cuda() * 2
y = layer(x)[0]
y.sum().backward()
print(y.sum().item(), layer.weight_ih_l0.grad.sum().item())
"""
UNSTEADY = "import torch, time\n" + RACE.replace("torch.ones(4", "(time.time_ns() % 1000 + torch.ones(4").replace(
    '="cuda")', '="cuda"))', 1
)
ONCE = "open('once', 'x').close()  # as a port that the first run still has\n" + RACE
FAILS = RACE.replace("print(", "if (y + 1).isnan().any():\n    raise ValueError('no number')\nprint(")


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a program and returns its exit status, report (or stderr if none) and stdout."""

    def check(source, *options, folder=tmp_path, own=("--isolated",)):
        (folder / "train.py").write_text(source)
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        common = ("--backend", "sim", *own, "--output-format", "json", "--output", str(report))
        done = warm.run("syncheck", "run", *common, *options, "train.py", folder=folder, limit=250)
        return done.returncode, json.loads(report.read_text()) if report.exists() else done.stderr, done.stdout

    return check


def proofs(report):
    return [finding["proof"] for finding in report["findings"] if "proof" in finding]


def test_an_unordered_read_is_reproduced_and_replayed(run):
    status, report, printed = run(RACE, "--witness")
    (proof,) = proofs(report)
    assert (status, printed) == (1, "sum 12.0\n")
    assert proof["outcome"] == "shown"
    assert proof["differences"][0] == {
        "what": "what train.py:8 reads",
        "usual": "[2, 2, 2, ...]",
        "other": "[nan, nan, nan, ...]",
    }
    again = [run(RACE, "--schedule", proof["tried"])[2] for _ in range(2)]
    assert again == ["sum nan\n", "sum nan\n"]


@pytest.mark.parametrize("source", [FREED, HOST, FAILS, REGROWN])
def test_early_frees_early_reads_and_crashes_are_reproduced(run, source):
    _, report, _ = run(source, "--witness")
    (proof,) = proofs(report)
    assert proof["outcome"] == "shown"
    found = {one["what"] for one in proof["differences"]}
    assert "how the program ends" in found if source is FAILS else any(what.startswith("printed") for what in found)


@pytest.mark.parametrize("write", ["x.fill_(2)", "x.copy_(torch.tensor(2))", "torch._foreach_copy_([x], [y])"])
def test_an_operator_does_not_read_what_it_overwrites(run, write):
    _, report, _ = run(OVERWRITTEN.format(write), "--witness")
    (proof,) = proofs(report)
    assert [one["what"] for one in proof["differences"]][:2] == ["what train.py:7 reads", "printed line 1"]


def test_a_race_on_another_device_type_is_reproduced_there(run):
    _, report, printed = run(RACE.replace("cuda", "xpu"), "--device-type", "xpu", "--witness")
    (proof,) = proofs(report)
    assert (proof["outcome"], printed) == ("shown", "sum 12.0\n")


def test_a_race_without_effect_is_not_reproduced(run):
    _, report, _ = run(UNUSED, "--witness")
    assert {proof["outcome"] for proof in proofs(report)} == {"not-shown"}


def test_a_race_inside_a_capture_is_not_tried(run):
    source = (Path(__file__).parents[2] / "fixtures/missing-record-stream/bad_in_capture.py").read_text()
    _, report, _ = run(source, "--witness")
    (proof,) = proofs(report)
    assert proof["outcome"] == "not-tried"
    assert "inside a CUDA graph" in proof["reason"]


def test_a_nondeterministic_program_is_not_tried(run):
    _, report, _ = run(UNSTEADY, "--witness")
    (proof,) = proofs(report)
    assert proof["outcome"] == "not-tried"
    assert "not deterministic" in proof["reason"]


def test_a_program_that_fails_when_rerun_is_not_tried(run):
    _, report, _ = run(ONCE, "--witness")
    (proof,) = proofs(report)
    assert proof["outcome"] == "not-tried"
    assert proof["reason"] == (
        "the accesses did not recur when the program was rerun: FileExistsError: [Errno 17] File exists: 'once'"
    )


def test_a_rerun_finds_the_models_of_the_project_in_a_folder_above(run, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\nmodels = ["acme_models"]\n')
    (tmp_path / "acme_models.py").write_text("")
    (tmp_path / "inner").mkdir()
    _, report, _ = run(RACE, "--witness", folder=tmp_path / "inner", own=())
    assert [proof["outcome"] for proof in proofs(report)] == ["shown"]


def test_record_stream_protects_the_memory_of_a_resized_storage(run):
    status, report, _ = run(RESIZED, "--schedules", "8")
    assert status == 0
    assert report["notes"] == ["8 random schedules: all results match the program's order"]


def test_an_lstm_gives_the_same_results_under_every_schedule(run):
    _, report, _ = run(LSTM, "--schedules", "8")
    assert report["notes"] == ["8 random schedules: all results match the program's order"]


def test_an_in_place_view_takes_effect_immediately(run):
    source = """
import torch

x = torch.arange(6.0).view(2, 3).cuda()
y = x * 2
y.transpose_(0, 1).unsqueeze_(0)
print(y.shape, y.sum(1).tolist())
"""
    _, report, printed = run(source, "--schedules", "8")
    assert "torch.Size([1, 3, 2]) [[6.0, 24.0]]" in printed
    assert report["notes"] == ["8 random schedules: all results match the program's order"]


def test_random_schedules_distinguish_a_race_from_a_correct_program(run):
    _, report, _ = run(RACE, "--schedules", "3", "--seed", "3")
    (note,) = report["notes"]
    assert re.search(
        r"^\d of 3 random schedules give different results; with --schedule s1-\S+, printed line 1: 'sum nan'", note
    )
    status, report, _ = run(GOOD, "--schedules", "3")
    assert status == 0
    assert report["notes"] == ["3 random schedules: all results match the program's order"]


def test_a_schedule_of_another_program_is_rejected(run):
    status, error, _ = run(RACE, "--schedule", "s1-000000-0-379a")
    assert status == 2
    assert error.startswith("syncheck: error: the schedule 's1-000000-0-379a' is not of this program\n")


def test_a_damaged_schedule_is_rejected(run):
    status, error, _ = run(RACE, "--schedule", "s1-000000-0-379b")
    assert status == 2
    assert "not a schedule" in error


def test_a_program_that_takes_too_long_is_killed(tmp_path):
    source = RACE + "\nimport sys, time\nif '--schedule' in sys.orig_argv:\n    time.sleep(100)\n"
    (tmp_path / "train.py").write_text(source)
    command = [warm.PYTHON, "-m", "syncheck", "run", "--backend", "sim", "--isolated", "--witness"]
    done = subprocess.run(
        [*command, "--proof-limit", "3", "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "the program takes longer than" in done.stderr
