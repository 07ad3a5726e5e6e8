"""Correct programs of the frameworks that people use: no errors, no warnings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")
DISTRIBUTED = frozenset({"ddp", "fsdp1", "fsdp2", "pipelining"})
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.gpu


def programs() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


@pytest.mark.parametrize("n_devices", [1, 2])
@pytest.mark.parametrize("name", programs())
def test_a_correct_program_has_no_findings(name: str, n_devices: int, tmp_path: Path) -> None:
    import torch  # noqa: PLC0415  only where there are GPUs

    if n_devices > torch.cuda.device_count():
        pytest.skip("it needs two GPUs")
    wrong = []
    for report in run(name, n_devices, tmp_path):
        wrong += [f"incomplete: {reason}" for reason in report["incomplete"]]
        serious = [f for f in report["findings"] if f["level"] in {"error", "warning"}]
        wrong += [f"{f['rule']} {f['path']}:{f['line']} {f['message']} <- {f['related']}" for f in serious]
        assert report["summary"]["operators"] > 20
    assert not wrong, "\n".join(wrong)


def run(name: str, n_devices: int, folder: Path) -> list[dict]:
    """Run a program, checked, and return the report of each process."""
    check = [sys.executable, "-m", "syncheck", "run", "--output-format", "json", "--fail-on", "error"]
    if name in DISTRIBUTED:
        line = f"{' '.join(check)} --output {folder}/$RANK.json {PROGRAMS / name}.py || true"
        port = 29500 + (hash((name, n_devices)) % 1000 + os.getpid()) % 1000
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n_devices)]
        command += ["--master-port", str(port), "--no-python", "bash", "-c", line]
    else:
        command = [*check, "--output", f"{folder}/0.json", f"{PROGRAMS / name}.py"]
    visible = ",".join(map(str, range(n_devices)))
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": visible, "PYTHONPATH": str(ROOT), "TOKENIZERS_PARALLELISM": "0"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    reports = sorted(folder.glob("*.json"))
    assert len(reports) == (n_devices if name in DISTRIBUTED else 1), done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return [json.loads(path.read_text()) for path in reports]
