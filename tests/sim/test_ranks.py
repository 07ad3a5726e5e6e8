"""Programs of several processes on virtual GPUs, started as torchrun starts them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "ranks"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize(("program", "size"), [("collectives", 1), ("collectives", 2), ("frameworks", 2)])
def test_collectives_and_frameworks_run_and_are_clean(program, size, tmp_path):
    port = str(free_port())
    processes = []
    for rank in range(size):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
        environment = {**os.environ, **place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-m", "syncheck", "run", "--backend", "sim", "--output-format", "json",
                   "--output", str(tmp_path / f"{rank}.json"), str(PROGRAMS / f"{program}.py")]  # fmt: skip
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    shown = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * size, "\n".join(shown)
    for rank in range(size):
        name = f"{rank}.rank{rank}.json" if size > 1 else f"{rank}.json"
        report = json.loads((tmp_path / name).read_text())
        assert [f for f in report["findings"] if f["level"] != "advice"] == []
        assert report["summary"]["operators"] > 50
