"""Starts programs with several ranks under syncheck in the ways launchers do."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm

PROGRAMS = Path(__file__).parent / "programs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
SYNCHECK = [sys.executable, "-m", "syncheck"]
RUN = [*SYNCHECK, "run", "--backend", "sim"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def forked(command):
    """Return a command whose Python is forked from one that has already imported torch."""
    return [warm.PYTHON if word == sys.executable else word for word in command]


@pytest.fixture
def run_in_folder(tmp_path):
    """Return a function that runs a command in a temporary folder and returns the completed process."""

    def run(*command, timeout=120, **more):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PORT": free_port(), **more}
        return subprocess.run(
            forked(command), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run


@pytest.fixture
def start_ranks(tmp_path):
    """Return a function that starts ranks through environment variables, as `srun` does, and returns their results."""

    def run(command, size, timeout=120, **more):
        port = free_port()
        processes = []
        for rank in range(size):
            location = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
            environment = {**os.environ, **location, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **more}
            own = command(rank) if callable(command) else command
            processes.append(
                subprocess.Popen(
                    forked(own),
                    cwd=tmp_path,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        shown = [process.communicate(timeout=timeout)[0] for process in processes]
        return [(process.returncode, text) for process, text in zip(processes, shown, strict=True)]

    return run
