"""Jobs on several machines, each simulated by a torchrun agent, optionally with its own file system."""

import shutil
import subprocess
import sys

import pytest

from tests import warm
from tests.ranks.conftest import PROGRAMS, forked, free_port

pytestmark = pytest.mark.slow

DYING = """\
import os, torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
x = torch.ones(4, device="cuda")
work = dist.all_reduce(x, async_op=True)
y = x + 1
work.wait()
if rank == 1:
    os.kill(os.getpid(), 9)
dist.all_reduce(y)
"""


def can_mount() -> bool:
    """Return whether this process may mount its own file systems."""
    command = ["unshare", "--mount", "true"]
    return (
        shutil.which("unshare") is not None and not subprocess.run(command, capture_output=True, check=False).returncode
    )


@pytest.fixture
def job(tmp_path):
    """Return a function that runs a program on two machines and returns (status, output) of each."""

    def run(program, *options, is_shared=True):
        port = free_port()
        running = []
        for node in (0, 1):
            here = tmp_path / "work"
            here.mkdir(exist_ok=True)
            agent = [
                sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node),
                "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", port,
                "-m", "syncheck", "run", "--backend", "sim", "--exit-zero", *options, str(program),
            ]  # fmt: skip
            if not is_shared:
                save = f"cp -r .syncheck {tmp_path}/saved{node}"
                script = f'mount -t tmpfs none {here} && cd {here} && "$@"; status=$?; {save}; exit $status'
                agent = ["unshare", "--mount", "bash", "-c", script, "node", *agent]
            running.append(
                subprocess.Popen(
                    forked(agent) if is_shared else agent,
                    cwd=here,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        shown = [process.communicate(timeout=200)[0] for process in running]
        return [(process.returncode, text) for process, text in zip(running, shown, strict=True)]

    return run


def test_machines_with_a_shared_folder_write_one_report(job):
    outcomes = job(PROGRAMS / "race.py", "--output-format", "concise")
    assert [status for status, _ in outcomes] == [0, 0]
    both = "".join(text for _, text in outcomes)
    assert both.count("SYN601") == 1
    assert "(rank" not in both  # both ranks have it


@pytest.mark.skipif(not can_mount(), reason="this process may not mount file systems")
def test_machines_without_a_shared_folder_name_missing_ranks_and_how_to_merge(job, tmp_path):
    outcomes = job(PROGRAMS / "race.py", "--output-format", "concise", is_shared=False)
    assert [status for status, _ in outcomes] == [0, 0]
    both = " ".join("".join(text for _, text in outcomes).split())
    assert "rank 0 of 2 left no record" in both
    assert "rank 1 of 2 left no record" in both
    assert "merge them with `syncheck merge FOLDER FOLDER`" in both
    folders = [str(folder) for node in (0, 1) for folder in (tmp_path / f"saved{node}").glob("job-*")]
    command = [warm.PYTHON, "-m", "syncheck", "merge", "--output-format", "concise", *folders]
    merged = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert merged.returncode == 1
    assert merged.stdout.count("SYN601") == 1
    assert "incomplete" not in merged.stdout + merged.stderr


def test_a_machine_that_dies_midway_hides_no_other(job, tmp_path):
    program = tmp_path / "dying.py"
    program.write_text(DYING)
    outcomes = job(program, "--output-format", "concise", "--ranks-dir", str(tmp_path / "records"))
    assert all(status for status, _ in outcomes)
    reported = outcomes[0][1]
    assert reported.count("SYN601") == 1
    assert "rank 1: the record has no end" in " ".join(reported.split())
