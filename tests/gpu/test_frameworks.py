"""Correct programs that use popular frameworks have no errors and no warnings."""

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
    import torch  # imported only if there are GPUs

    if n_devices > torch.cuda.device_count():
        pytest.skip("needs two GPUs")
    wrong = []
    report = run(name, n_devices, tmp_path)
    wrong += [f"incomplete: {reason}" for reason in report["incomplete"]]
    serious = [f for f in report["findings"] if f["level"] in {"error", "warning"}]
    wrong += [f"{f['rule']} {f['path']}:{f['line']} {f['message']} <- {f['related']}" for f in serious]
    assert report["summary"]["operators"] > 20
    assert report["summary"]["ranks"] == (n_devices if name in DISTRIBUTED else 0)
    assert not wrong, "\n".join(wrong)


def run(name: str, n_devices: int, folder: Path) -> dict:
    """Run a program under a check and return its report, merged if it has several ranks."""
    command = [sys.executable, "-m", "syncheck", "run", "--output-format", "json", "--fail-on", "error"]
    command += ["--nproc", str(n_devices)] if name in DISTRIBUTED else []
    command += ["--output", f"{folder}/report.json", f"{PROGRAMS / name}.py"]
    visible = ",".join(map(str, range(n_devices)))
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": visible, "PYTHONPATH": str(ROOT), "TOKENIZERS_PARALLELISM": "0"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return json.loads((folder / "report.json").read_text())
