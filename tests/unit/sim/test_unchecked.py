"""Virtual GPUs in an unchecked process."""

import subprocess
import sys

PROGRAM = """
from syncheck.sim.unchecked import simulate_unchecked
simulate_unchecked(2)
import torch
s = torch.cuda.Stream()
x = torch.ones(3, device="cuda:1")
with torch.cuda.stream(s):
    y = x * 2
print(torch.cuda.device_count(), y.device, y.tolist())
"""


def test_a_process_sees_gpus_until_it_ends():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "2 cuda:1 [2.0, 2.0, 2.0]", done.stderr
