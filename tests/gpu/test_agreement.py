"""Random programs have the simulator's findings on real GPUs, and race-free ones compute the right values."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]


def test_random_programs_agree_with_the_simulator(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    command = [sys.executable, "-m", "tests.agreement.on_gpus", "--programs", "100", "--limit", "120"]
    done = subprocess.run(
        [*command, "--output", str(output)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )
    assert output.exists(), done.stderr
    result = json.loads(output.read_text())
    assert not result["problems"], json.dumps(result["problems"][0], indent=1)
    assert result["counts"]["values compared"]
