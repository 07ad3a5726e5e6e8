"""Clocks that are read right before the host waits for the GPU."""

import textwrap

import pytest

from syncheck.lint.patterns.late_synchronizations import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

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
    return list(findings(context_of(source))) if can_matter(text) else []


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
    (finding,) = findings(context_of(source))
    assert list(findings(context_of(source, [finding]))) == []


TIMER = """
import time
import torch
from contextlib import contextmanager

@contextmanager
def region(self, log):
    {before}
    began = time.perf_counter()
    try:
        yield
    finally:
        {end}
        log(seconds)
"""


def found_in_timer(before="torch.cuda.synchronize()", end="seconds = time.perf_counter() - began"):
    source = SourceFile("timer.py", TIMER.format(before=before, end=end.replace("\n", "\n        ")))
    return list(findings(context_of(source)))


@pytest.mark.parametrize("before", ["torch.cuda.synchronize()", "if self.is_cuda: torch.cuda.synchronize()"])
def test_an_interval_around_a_yield_waits_at_both_ends(before):
    (finding,) = found_in_timer(before)
    assert finding.rule.code == "SYN701"
    assert finding.help == f"add `{before}` before line 13, as in line 8"
    assert found_in_timer(before, "torch.cuda.synchronize()\nseconds = time.perf_counter() - began") == []
    both = "launched = time.perf_counter() - began\ntorch.cuda.synchronize()\nseconds = time.perf_counter() - began"
    assert found_in_timer(before, both) == []


@pytest.mark.parametrize("before", ["pass", "if self.verbose: torch.cuda.synchronize()"])
def test_an_interval_that_waits_at_no_end_measures_the_host(before):
    assert found_in_timer(before) == []


def test_an_interval_around_other_code_may_wait_inside():
    source = TIMER.replace("yield", "self.generate()").format(
        before="torch.cuda.synchronize()", end="seconds = time.perf_counter() - began"
    )
    file = SourceFile("timer.py", source)
    assert list(findings(context_of(file))) == []


BENCHMARK = """
import time
import torch

def bench(fn, x, n):
    {before}
    began = time.perf_counter()
    for _ in range(n):
        {work}
    {after}
    {end}
"""
BENCHMARK_PARTS = {
    "before": "torch.cuda.synchronize()",
    "work": "fn(x)",
    "after": "pass",
    "end": "return time.perf_counter() - began",
}


def found_in_benchmark(**parts):
    source = SourceFile("bench.py", BENCHMARK.format(**(BENCHMARK_PARTS | parts)))
    return [finding.location.frame.line for finding in findings(context_of(source))]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"work": "model(x)"},
        {"work": "self.model(x)"},
        {"work": "y = model(x)"},
        {"work": "loss = model(x)\n        loss.backward()"},
        {"work": "model(x)\n        ids = x['ids']\n        n += ids.numel()"},
        {"end": "seconds = time.perf_counter() - began; print(seconds)"},
        {"end": "seconds += time.perf_counter() - began"},
        {"end": "times.append(time.perf_counter() - began)"},
    ],
)
def test_an_interval_around_a_given_function_waits_at_both_ends(parts):
    assert found_in_benchmark(**parts) == [11 + parts.get("work", "").count("\n")]


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "pass"},
        {"after": "torch.cuda.synchronize()"},
        {"work": "fn(x).item()"},
        {"work": "y = model(x)\n        total += float(y)"},
        {"work": "generate(x)"},
        {"work": "self.fn(x)"},
        {"work": "x += 1", "after": "fn(x)"},
        {"work": "model(x)", "after": "do_bench(lambda: fn(x))"},
        {"end": "time.sleep(max(0, 1 - (time.perf_counter() - began)))"},
        {"end": "self.data_time = time.perf_counter()"},
        {"end": "torch.cuda.synchronize(); return time.perf_counter() - began"},
    ],
)
def test_an_interval_that_may_wait_is_not_reported(parts):
    assert found_in_benchmark(**parts) == []


HARNESS = """
import time
import torch

class Harness:
    def {settle}(self):
        {sync}
    def warm(self, fn, x):
        for _ in range(3):
            fn(x)
        {after_warm}
    def measure(self, fn, x, n):
        began = time.perf_counter()
        for _ in range(n):
            fn(x)
        {at_end}
        return (time.perf_counter() - began) / n
"""
HARNESS_PARTS = {
    "settle": "_settle",
    "sync": "if self.device.type == 'cuda': torch.cuda.synchronize(self.device)",
    "after_warm": "self._settle()",
    "at_end": "pass",
}


def found_in_harness(**parts):
    source = SourceFile("harness.py", HARNESS.format(**(HARNESS_PARTS | parts)))
    return list(findings(context_of(source)))


@pytest.mark.parametrize(
    ("parts", "advice"),
    [
        ({}, "add `self._settle()` before line 17, as in line 11"),
        ({"after_warm": "torch.cuda.synchronize()"}, "add `torch.cuda.synchronize()` before line 17, as in line 11"),
    ],
)
def test_another_method_of_the_class_waits_after_such_work(parts, advice):
    (finding,) = found_in_harness(**parts)
    assert (finding.location.frame.line, finding.help) == (17, advice)


@pytest.mark.parametrize(
    "parts",
    [
        {"at_end": "self._settle()"},
        {"after_warm": "pass"},
        {"sync": "self.settled = True"},
        {"after_warm": "self.other()"},
    ],
)
def test_a_class_that_waits_nowhere_else_or_here_too_is_not_reported(parts):
    assert found_in_harness(**parts) == []


REPEATS = """import time
import torch

def bench(fn, on_gpu, device):
    fn()
    samples = []
    for _ in range(10):
        began = time.perf_counter()
        for _ in range(4):
            fn()
        {inside}
        samples.append(time.perf_counter() - began)
    {after}
    return samples
"""


def found_in_repeats(inside, after):
    file = SourceFile("bench.py", REPEATS.format(inside=inside, after=after))
    return list(findings(context_of(file)))


def test_a_wait_after_the_loop_shows_that_each_interval_needs_one():
    (finding,) = found_in_repeats("pass", "if on_gpu: torch.cuda.synchronize(device)")
    assert finding.location.frame.line == 12
    assert finding.help == "add `if on_gpu: torch.cuda.synchronize(device)` before line 12, as in line 13"


@pytest.mark.parametrize(
    ("inside", "after"),
    [
        ("torch.cuda.synchronize(device)", "torch.cuda.synchronize(device)"),
        ("pass", "print(samples)"),
        ("pass", "print(samples); torch.cuda.synchronize(device)"),
    ],
)
def test_an_interval_that_waits_or_is_followed_by_no_wait_is_not_reported(inside, after):
    assert found_in_repeats(inside, after) == []


WITH_EVENTS = """
import time
import torch
def bench(func, starts, ends):
    times = []
    for start, end in zip(starts, ends):
        began = time.time()
        start.record()
        func(3)
        if {test}:
            end.record()
        else:
            spent = time.time() - began
            times.append(spent)
    torch.cuda.synchronize()
    return times
"""


@pytest.mark.parametrize(("test", "n"), [("torch.cuda.is_available()", 0), ("end is not None", 1)])
def test_a_reading_on_machines_without_a_gpu_misses_nothing(test, n):
    source = SourceFile("bench.py", WITH_EVENTS.format(test=test))
    assert len(list(findings(context_of(source)))) == n


@pytest.mark.parametrize(
    "parts",
    [
        {"end": "# torch.cuda.synchronize()\n    duration = time.time() - began"},
        {"end": "# if args.sync: torch.cuda.synchronize()\n    ended = time.time()", "used": "ended - began"},
        {
            "end": "#device_util.synchronize(0)  too slow\n    self.total += time.time() - self.began",
            "used": "self.total",
        },
    ],
)
def test_a_wait_before_the_reading_is_commented_out(parts):
    (finding,) = found(**{"wait": "pass", "after": "torch.cuda.synchronize()"} | parts)
    assert (finding.rule.code, finding.location.frame.line) == ("SYN701", 11)
    assert finding.help.startswith("restore `")
    assert finding.help.endswith("in line 10")


@pytest.mark.parametrize(
    "parts",
    [
        {
            "end": "# torch.cuda.synchronize()\n    duration = time.time() - began",
            "work": "target.copy_(source).item()",
        },
        {"end": "# do not synchronize() here\n    duration = time.time() - began"},
        {"end": "# torch.cuda.synchronize()\n    started = time.time()", "used": "began"},
    ],
)
def test_a_comment_is_no_wait_or_the_host_waits_otherwise(parts):
    assert found(**{"wait": "pass", "after": "torch.cuda.synchronize()"} | parts) == []
