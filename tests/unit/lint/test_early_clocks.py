"""Clocks that are first read while earlier work is running."""

import pytest

from syncheck.lint import early_clocks
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

TIMED = """
import time
import torch

def bench(model, x, n):
    model, x = model.cuda(), x.cuda()
    {before}
    start = time.perf_counter()
    for _ in range(n):
        model(x)
    {after}
    {end}
"""
NORMAL = {
    "before": "for _ in range(5): model(x)",
    "after": "torch.cuda.synchronize()",
    "end": "print((time.perf_counter() - start) / n)",
}


def found(**parts):
    result = lint_source("m.py", Text(TIMED.format(**NORMAL | parts)))
    assert not result.problem, result.problem
    return [(f.location.frame.line, f.level.value) for f in result.findings if "includes earlier work" in f.message]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"before": "loss = model(x).sum(); loss.backward()"},
        {"before": "y = torch.randn(64, 64, device='cuda'); z = y @ y"},
        {"after": "torch.cuda.current_stream().synchronize()"},
    ],
)
def test_a_warm_up_without_a_wait_counts_as_measured_work(parts):
    assert found(**parts) == [(8, "warning")]


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "pass"},
        {"before": "for _ in range(5): model(x)\n    torch.cuda.synchronize()"},
        {"before": "model(x).sum().item()"},
        {"before": "y = torch.randn(64, 64, device='cuda').float() * 2"},  # short
        {"before": "run_tests(model)"},  # unknown code that may wait
        {"after": "pass"},  # reported at the end of the interval
        {"end": "assert time.perf_counter() - start < 10"},
    ],
)
def test_short_work_waits_and_times_that_are_not_used(parts):
    assert found(**parts) == []


@pytest.mark.parametrize(
    ("before", "n", "is_found"),
    [("3", "100", False), ("3", "30", False), ("5", "10", True), ("k", "100", True), ("3", "k", True)],
)
def test_few_iterations_before_many_matter_little(before, n, is_found):
    source = TIMED.format(**NORMAL | {"before": f"n = {n}\n    for _ in range({before}): model(x)"})
    found = [f.location.frame.line for f in lint_source("m.py", Text(source)).findings]
    assert found == ([9] if is_found else [])


@pytest.mark.parametrize(("n", "is_found"), [("1000", False), ("10", True)])
def test_one_call_before_many_iterations_matters_little(n, is_found):
    source = TIMED.format(**NORMAL | {"before": f"n = {n}; model(x)"})
    assert bool(lint_source("m.py", Text(source)).findings) is is_found


@pytest.mark.parametrize(("given", "is_found"), [("train_loader", False), ("images", True)])
def test_a_loop_over_all_data_is_long(given, is_found):
    source = TIMED.replace("range(n)", given).format(**NORMAL)
    assert bool(lint_source("m.py", Text(source)).findings) is is_found


def test_only_the_first_iteration_of_a_loop_includes_what_is_before_it():
    source = """
import time
import torch

def bench(model, x):
    model, x = model.cuda(), x.cuda()
    model(x)
    for _ in range(10):
        start = time.perf_counter()
        model(x)
        torch.cuda.synchronize()
        print(time.perf_counter() - start)
"""
    assert lint_source("m.py", Text(source)).findings == ()


def test_what_the_iteration_before_leaves_running_is_not_reported():
    source = """
import time
import torch

def train(model, batches, optimizer):
    model = model.cuda()
    for batch in batches:
        start = time.perf_counter()
        loss = model(batch.cuda())
        torch.cuda.synchronize()
        print(time.perf_counter() - start)
        loss.backward()
"""
    assert lint_source("m.py", Text(source)).findings == ()


def test_the_finding_names_both_places_and_a_line_to_add():
    (finding,) = lint_source("m.py", Text(TIMED.format(**NORMAL))).findings
    assert finding.message == "this interval includes earlier work: the GPU is still running what line 7 launches"
    assert [location.frame.line for location in finding.related] == [7]
    assert finding.help == "add `torch.cuda.synchronize()` before line 8"


def test_the_line_checks_for_a_gpu_in_a_file_that_may_run_without_one():
    source = "import torch\nDEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'\n" + TIMED.format(**NORMAL)
    (finding,) = lint_source("m.py", Text(source)).findings
    assert finding.help == "add `if torch.cuda.is_available(): torch.cuda.synchronize()` before line 10"


def test_without_such_readings_there_are_no_findings():
    assert list(early_clocks.findings({}, {}, None, None)) == []
