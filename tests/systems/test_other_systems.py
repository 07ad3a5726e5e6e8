"""Windows and macOS, approximated on Linux by removing what they lack."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import warm

for needed in ("jinja2", "pygls"):  # every module of syncheck and its dependencies is imported
    pytest.importorskip(needed)
ROOT = Path(__file__).parents[2]
SYSTEMS = ["windows", "macos"]
BAD = ROOT / "fixtures/unordered-read/bad.py"
TWO_RANKS = """
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
print(x.sum().item())
dist.destroy_process_group()
"""


def run(system, *arguments, folder, status):
    command = [warm.PYTHON, "-m", "tests.systems.without", system, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=280, env=environment
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_module_can_be_imported(system, tmp_path):
    assert int(run(system, "modules", folder=tmp_path, status=0)) > 300


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_and_its_replay_work(system, tmp_path):
    options = ("--backend", "sim", "--trace", "run.trace", "--html", "run.html", "--output-format", "concise")
    found = run(system, "run", *options, BAD, folder=tmp_path, status=1)
    assert "SYN101" in found
    assert "incomplete" not in found
    assert (tmp_path / "run.html").stat().st_size > 1000
    assert "SYN101" in run(system, "replay", "run.trace", folder=tmp_path, status=1)


# 20 files are linted by worker processes; Windows worker processes need a real Windows
@pytest.mark.parametrize(("system", "count"), [("windows", 8), ("macos", 20)])
def test_the_linter_fixes_files_and_writes_a_baseline(system, count, tmp_path):
    for number in range(count):
        (tmp_path / f"train_{number}.py").write_bytes(BAD.read_bytes().replace(b"\n", b"\r\n"))
    found = run(system, "lint", folder=tmp_path, status=1)
    assert found.count("SYN101] [*] unordered-read") == count
    run(system, "lint", "--baseline", "known.json", "--write-baseline", folder=tmp_path, status=0)
    assert "no new findings" in run(system, "lint", "--baseline", "known.json", folder=tmp_path, status=0)
    assert f"{count} fixed" in run(system, "lint", "--fix", folder=tmp_path, status=0)
    repaired = (tmp_path / "train_7.py").read_bytes()
    assert repaired.count(b"\r\n") == repaired.count(b"\n") == BAD.read_bytes().count(b"\n") + 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_rank_is_checked(system, tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(TWO_RANKS)
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    options = ("--backend", "sim", "--hang-timeout", "60")
    assert "no findings" in run(system, "run", *options, "train.py", folder=tmp_path, status=0)


@pytest.mark.parametrize("command", [("doctor",), ("explain", "SYN101")])
def test_other_commands_work(command, tmp_path):
    assert run("windows", *command, folder=tmp_path, status=0)
