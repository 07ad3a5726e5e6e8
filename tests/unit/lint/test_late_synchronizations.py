"""Clocks that are read right before the host waits for the GPU."""

import textwrap

import pytest

from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.late_synchronizations import can_matter, findings
from syncheck.lint.source_file import SourceFile

FUNCTION = """
import time
import torch
from device import device_util

def copy_all(pairs, log):
    {start}
    for source, target in pairs:
        {work}
    {end}
    {wait}
    {after}
    log("took", {used})
"""
PARTS = {
    "start": "began = time.time()",
    "work": "target.copy_(source)",
    "end": "duration = time.time() - began",
    "wait": "torch.cuda.synchronize()",
    "after": "pass",
    "used": "duration",
}


def found(**parts):
    text = textwrap.dedent(FUNCTION).format(**(PARTS | parts))
    source = SourceFile("copies.py", text)
    return list(findings(source.tree, SourceSites(source), [])) if can_matter(text) else []


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"wait": "device_util.synchronize(device_id=0)"},
        {"wait": "torch.cuda.synchronize(source.device)"},
        {"end": "ended = time.time()", "used": "ended - began"},
        {"start": "began = time.perf_counter()", "end": "duration = (time.perf_counter() - began) * 1e3"},
    ],
)
def test_a_wait_right_after_the_reading_is_too_late(parts):
    (finding,) = found(**parts)
    assert (finding.rule.code, finding.location.frame.line) == ("SYN701", 10)
    assert "line 11 before line 10" in finding.help


@pytest.mark.parametrize(
    "parts",
    [
        {"end": "torch.cuda.synchronize()\n    duration = time.time() - began"},
        {"work": "target.copy_(source)\n        total = source.item()"},
        {"work": "pass"},
        {"wait": "worker.synchronize(0)"},
        {"wait": "pass", "after": "torch.cuda.synchronize()"},
        {"after": "began = time.time()"},
        {"after": "total = time.time() - began"},
        {"end": "launch_time = time.time() - began", "used": "launch_time"},
        {"end": "data_time = time.time() - began", "used": "data_time"},
        {"start": "began = 0"},
    ],
)
def test_other_intervals_are_not_reported(parts):
    assert found(**parts) == []


def test_a_reading_that_is_reported_already_is_not_reported_again():
    text = textwrap.dedent(FUNCTION).format(**PARTS)
    source = SourceFile("copies.py", text)
    (finding,) = findings(source.tree, SourceSites(source), [])
    assert list(findings(source.tree, SourceSites(source), [finding])) == []
