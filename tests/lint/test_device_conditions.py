"""Clocks and conditions on the device: a path without a GPU has no bug."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

SOURCE = """
import time
import torch

def finish(device, x):
    {finish}

def main(device, rows, no_cuda):
    x = torch.ones(4, device="cuda")
    {before}
    start = time.time()
    x = x @ x
    {after}
    print(time.time() - start)
"""


def found(**given):
    lines = {"finish": "return device", "before": "pass", "after": "pass"} | given
    result = lint_source("m.py", Text(SOURCE.format(**lines)))
    assert not result.problem, result.problem
    return [str(finding.level) for finding in result.findings if finding.rule.code == "SYN701"]


def test_without_a_wait_there_is_an_error():
    assert found() == found(after="finish(device, x)") == ["error"]


@pytest.mark.parametrize(
    "finish",
    [
        "if device.type == 'cpu':\n        return\n    torch.cuda.synchronize()",
        "if device.type in ('cpu', 'mps'):\n        return\n    torch.cuda.synchronize()",
        "if not str(device).startswith('cuda'):\n        return\n    torch.cuda.synchronize()",
        "if not x.is_cuda:\n        return\n    torch.cuda.synchronize()",
        "return torch.cuda.synchronize() if device.is_cuda else None",
    ],
)
def test_a_helper_may_wait_for_gpus_only(finish):
    assert found(finish=finish, after="finish(device, x)") == []


@pytest.mark.parametrize(
    "condition",
    ["device == 'cpu'", "no_cuda", "rows.device.type != 'cuda'", "not rows.is_cuda", "device not in ['cuda', 'xpu']"],
)
def test_a_clock_on_a_path_without_a_gpu_misses_nothing(condition):
    read = "print(time.time() - start)\n        return"
    assert found(after=f"if {condition}:\n        {read}\n    torch.cuda.synchronize()") == []


def test_another_condition_decides_nothing_about_the_device():
    read = "print(time.time() - start)\n        return"
    assert found(after=f"if not rows:\n        {read}\n    torch.cuda.synchronize()") == ["error"]


def test_a_condition_that_no_machine_with_a_gpu_meets_is_known():
    no_gpu = "if device == 'cuda' and not torch.cuda.is_available():\n        device = 'cpu'"
    wait = "if device == 'cuda':\n        torch.cuda.synchronize()"
    assert found(before=no_gpu, after=wait) == []
