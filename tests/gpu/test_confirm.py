"""On a real GPU, a delay makes races happen, and only true races change a value."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.gpu

FIXTURES = Path(__file__).parents[2] / "fixtures"


def proofs(program: Path, folder: Path, *options: str) -> list[dict[str, object]]:
    report = folder / "report.json"
    command = [sys.executable, "-m", "syncheck", "run", "--backend", "cuda", "--confirm", "--output-format", "json"]
    command += ["--output", str(report), *options, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert report.exists(), done.stderr
    return [finding["proof"] for finding in json.loads(report.read_text())["findings"] if "proof" in finding]


@pytest.mark.parametrize(
    "name",
    [
        "unordered-read/bad.py",
        "unordered-read/bad_backward.py",
        "unordered-write/bad.py",
        "host-read-in-flight/bad.py",
        "missing-record-stream/bad.py",
    ],
)
def test_a_race_is_confirmed_by_a_delay(name: str, tmp_path: Path) -> None:
    (proof,) = proofs(FIXTURES / name, tmp_path)
    assert (proof["outcome"], proof["means"]) == ("shown", "delay"), proof
    assert proof["differences"]


SAME = """
import torch

side = torch.cuda.Stream()
x = torch.zeros(1000, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    x.fill_(0)
x.fill_(0)
torch.cuda.synchronize()
print(x.sum().item())
"""

RANDOM = """
import time
from pathlib import Path

import torch

runs = Path(__file__).with_name("runs")
runs.mkdir(exist_ok=True)
n_runs = len(list(runs.iterdir()))
(runs / str(n_runs)).touch()
side = torch.cuda.Stream()
x = torch.zeros(1 << 20, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    torch.cuda._sleep(400_000_000 if n_runs % 2 else 1)  # some 0.2 s in every second run
    x.fill_(1)
time.sleep(0.02)
y = x * 2
torch.cuda.synchronize()
print(y.sum().item())
"""

COLLECTIVE = """
import time

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
x = torch.ones(1 << 20, device="cuda")
dist.all_reduce(x)  # makes the communicator
torch.cuda.synchronize()
work = dist.all_reduce(x, async_op=True)
time.sleep(0.1)  # without a delay, the collective is complete by now: the race shows no other value
y = x * 2
work.wait()
print(y.sum().item())
dist.destroy_process_group()
"""

FIRST_COLLECTIVE = """
import time

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
x, gathered = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
torch.cuda.synchronize()
work = dist.all_gather_into_tensor(gathered, x, async_op=True)
time.sleep(0.1)
y = gathered * 2
work.wait()
print(y.sum().item())
dist.destroy_process_group()
"""

REPLAY = """
import torch

x = torch.ones(1000, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=side):
    z = x * 3
torch.cuda.synchronize()
with torch.cuda.stream(side):
    graph.replay()
print((z + 1).sum().item())
"""


def test_a_race_that_shows_by_itself_is_confirmed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(RANDOM)
    (proof,) = proofs(tmp_path / "program.py", tmp_path)
    assert (proof["outcome"], proof["means"]) == ("shown", "delay"), proof
    assert proof["differences"][0]["usual"].startswith("[1")  # what the later access reads


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_collective_can_be_delayed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COLLECTIVE)
    (proof,) = proofs(tmp_path / "program.py", tmp_path, "--nproc", "2")
    assert proof["outcome"] == "shown", proof


def test_the_first_collective_of_a_group_can_be_delayed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FIRST_COLLECTIVE)
    (proof,) = proofs(tmp_path / "program.py", tmp_path, "--nproc", "1")
    assert (proof["outcome"], proof["means"]) == ("shown", "delay"), proof


def test_a_replay_can_be_delayed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(REPLAY)
    found = proofs(tmp_path / "program.py", tmp_path)
    assert [proof["outcome"] for proof in found] == ["shown"], found


def test_a_race_that_changes_no_value_is_not_reproduced(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SAME)
    (proof,) = proofs(tmp_path / "program.py", tmp_path)
    assert proof["outcome"] == "not-shown", proof
