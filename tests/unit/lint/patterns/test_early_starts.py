"""Timers that read the clock right before the host waits for the GPU."""

import textwrap

import pytest

from syncheck.lint.patterns.early_starts import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

CONTEXT = """
import time
import torch
from contextlib import contextmanager

@contextmanager
def timed(log, sync):
    {before}
    start: float = time.perf_counter()
    {first}
    {work}
    torch.cuda.synchronize()
    log(time.perf_counter() - start)
"""
PARTS = {"before": "log.clear()", "first": "torch.cuda.synchronize()", "work": "yield"}
TIMER = """
import time
import torch

class Timer:
    def {name}(self):
        self.began = time.time()
        torch.cuda.synchronize()

    def stop(self):
        torch.cuda.synchronize()
        return time.time() - self.began
"""


def found(text):
    source = SourceFile("timers.py", textwrap.dedent(text))
    return list(findings(context_of(source))) if can_matter(source.text) else []


@pytest.mark.parametrize(
    "first",
    [
        "torch.cuda.synchronize()",
        "if torch.cuda.is_available(): torch.cuda.synchronize()",
        "if sync: torch.cuda.synchronize()",
        "log.push('a'); torch.cuda.synchronize()",
        "try:\n        torch.cuda.synchronize()\n    finally:\n        pass",
    ],
)
def test_a_context_that_waits_after_it_reads_the_clock_includes_earlier_work(first):
    (finding,) = found(CONTEXT.format(**(PARTS | {"first": first})))
    assert (finding.rule.code, finding.level.value, finding.location.frame.line) == ("SYN701", "warning", 9)
    assert finding.help.startswith("move line 9 after the call of `synchronize` in line ")


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "torch.cuda.synchronize()"},
        {"first": "pass"},
        {"first": "if log: torch.cuda.synchronize()"},
        {"first": "log.push('a'); log.push('b'); torch.cuda.synchronize()"},
        {"work": "log.run()"},
        {"first": "yield; torch.cuda.synchronize()", "work": "pass"},
    ],
)
def test_other_functions_are_not_reported(parts):
    assert not found(CONTEXT.format(**(PARTS | parts)))


@pytest.mark.parametrize(("name", "lines"), [("start", [7]), ("__enter__", [7]), ("measure", [])])
def test_methods_that_start_a_timer_are_checked(name, lines):
    assert [finding.location.frame.line for finding in found(TIMER.format(name=name))] == lines
