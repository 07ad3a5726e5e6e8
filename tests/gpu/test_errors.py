"""A check passes on a program's own errors unchanged, and still sees the operations after them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

NAMELESS = """
import torch

def step(x, y):
    return x + y

a = torch.ones(4, device="cuda")
try:
    step(a.float() + 1, next(iter(())))
except StopIteration as error:
    print("stopped:", repr(error))
try:
    a @ torch.ones(3, device="cuda")
except RuntimeError:
    torch.cuda.synchronize()
side = torch.cuda.Stream()
print((a + 1).sum().item())
b = a * 2
with torch.cuda.stream(side):
    b.add_(1)
"""

IN_BACKWARD = """
import torch

def step(x, y):
    return x + y

class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return step(grad.float() + 1, next(iter(())))

x = torch.ones(4, device="cuda", requires_grad=True)
try:
    Failing.apply(x).sum().backward()
except StopIteration as error:
    print("stopped:", repr(error))
"""

RESIZED = """
import torch

a = torch.ones(1 << 20, device="cuda")
storage = a.untyped_storage()
side = torch.cuda.Stream()
torch.cuda.current_stream().synchronize()
storage.resize_(0)
with torch.cuda.stream(side):
    b = torch.ones(1 << 20, device="cuda")
    storage.resize_(4 << 20)
    a.fill_(2)
print(b.data_ptr() != a.data_ptr())
"""

COLLECTED = """
import gc
import torch

class Node:
    pass

side, graph, x = torch.cuda.Stream(), torch.cuda.CUDAGraph(), torch.ones(8, device="cuda")
side.wait_stream(torch.cuda.current_stream())
node = Node()
node.itself, node.pinned = node, torch.ones(8).pin_memory()
with torch.cuda.stream(side):
    node.pinned.copy_(x, non_blocking=True)
torch.cuda.synchronize()
gc.collect()
gc.set_threshold(5, 1, 1)
with torch.cuda.stream(side):
    graph.capture_begin(capture_error_mode="relaxed")
    node = None
    x.mul_(2)
    graph.capture_end()
torch.cuda.synchronize()
print(torch.ones(8).pin_memory().is_pinned())
"""


@pytest.mark.parametrize(
    ("source", "printed", "found"),
    [
        (NAMELESS, "stopped: StopIteration()", ["SYN103"]),
        (IN_BACKWARD, "stopped: StopIteration()", []),
        (RESIZED, "True", []),
        (COLLECTED, "True", []),
    ],
)
def test_a_program_behaves_as_it_does_without_a_check(
    source: str, printed: str, found: list[str], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(source)
    command = [sys.executable, "-m", "syncheck", "run", "--output-format", "concise", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == bool(found), done.stderr
    assert printed in done.stdout
    codes = [line.split(": ", 1)[1].split()[0] for line in (done.stdout + done.stderr).splitlines() if ": SYN" in line]
    assert codes == found, done.stderr
