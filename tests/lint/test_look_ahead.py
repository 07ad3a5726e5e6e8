"""Loops in which each iteration starts the receive of the next one, except for the last."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

STAGES = """import torch
import torch.distributed as dist

def run(batches, n):
    buffer = torch.empty(4, device="cuda")
    work = dist.irecv(buffer, src=0)
    for i, batch in enumerate(batches):
        {wait}
        batch.use(buffer)
        if {test}:
            buffer = torch.empty(4, device="cuda")
            work = dist.irecv(buffer, src=0)
"""


def codes(test, wait="work.wait()"):
    return [finding.rule.code for finding in lint_source("a.py", Text(STAGES.format(test=test, wait=wait))).findings]


@pytest.mark.parametrize("test", ["i + 1 < n", "i < len(batches) - 1", "i != n - 1", "i + 1 != len(batches)"])
def test_the_last_iteration_starts_no_receive(test):
    assert codes(test) == []


@pytest.mark.parametrize("test", ["True", "batch"])
def test_otherwise_the_last_receive_is_forgotten(test):
    assert codes(test) == ["SYN603"]


def test_receives_that_nothing_waits_for_are_reported():
    assert codes("i + 1 < n", "pass") == ["SYN603", "SYN603"]
