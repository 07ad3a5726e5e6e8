"""The overlap examples of the seeds, measured on two GPUs with kernels that outlast their launches."""

import subprocess
import sys

import pytest
import torch

from tests.overlap.answers import COPY, PRODUCT, SEEDS, Answer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
    pytest.mark.xdist_group("timed"),  # nothing else may use the GPUs
]
WARM_UP = """
for _ in range(3):
    b * b * b
    a.to("cuda:1")
torch.cuda.synchronize(0)
torch.cuda.synchronize(1)
"""


@pytest.mark.parametrize("blocking", ["blocking", "non_blocking"])
@pytest.mark.parametrize("aside", ["default", "sender", "receiver", "both"])
def test_a_copy_between_gpus_overlaps_only_with_side_streams_on_both(tmp_path, aside, blocking):
    source = (SEEDS / f"transfer_{aside}_{blocking}.py").read_text().replace("1 << 20", "1 << 27")
    made = 'b = torch.randn(1 << 27, device="cuda:1")\n'
    assert made in source
    (tmp_path / "transfer.py").write_text(source.replace(made, made + WARM_UP))
    command = [sys.executable, "-m", "syncheck", "run", "--backend", "cuda", "--times", "--trace", "run.trace"]
    done = subprocess.run(
        [*command, "--exit-zero", "transfer.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    answer = Answer(tmp_path / "run.trace")
    (copy,), products = answer.ran(COPY)[-1:], answer.ran(PRODUCT)[-2:]
    together = sum(max(0, min(copy[1], end) - max(copy[0], start)) for start, end in products)
    share = together / sum(end - start for start, end in products)
    assert (share > 0.2) == (aside == "both"), (share, copy, products)
