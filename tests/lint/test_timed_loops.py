"""Clocks in and around loops, and clocks in files that name no GPU."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

TRAINING = """
import time
import torch

def train(model, batches, optimizer, {parameter}=None):
    model = model.to({parameter})
    criterion = {criterion}
    times = []
    for {loop}:
        {before}
        loss = criterion(model(x), 3)
        loss.backward()
        {step}
        {after}
    {end}
    return times
"""
GUARDED = {
    "before": "if i >= 3: start = time.time()",
    "after": "if i >= 3: times.append(time.time() - start)",
}
LATE = {
    "after": "if i == 2: start = time.time()",
    "end": "times.append((time.time() - start) / 10)",
}


def lines(**parts):
    given = {
        "parameter": "device",
        "criterion": "torch.nn.CrossEntropyLoss()",
        "loop": "i, x in enumerate(batches)",
        "before": "pass",
        "step": "optimizer.step()",
        "after": "pass",
        "end": "pass",
    }
    source = textwrap.dedent(TRAINING.format(**(given | parts)))
    return [f.location.frame.line for f in lint_source("m.py", Text(source)).findings if f.rule.code == "SYN701"]


@pytest.mark.parametrize(
    "loop",
    ["i, x in enumerate(batches)", "i in range(200)", "i in range(len(batches))", "i, x in zip(count(), batches)"],
)
def test_a_condition_on_the_number_of_a_later_iteration_may_hold(loop):
    assert lines(loop=loop, **GUARDED) == [14]


@pytest.mark.parametrize("loop", ["i, x in enumerate([1, 2])", "i in range(3)"])
def test_no_later_iteration_follows_a_short_loop(loop):
    assert lines(loop=loop, **GUARDED) == []


@pytest.mark.parametrize("loop", ["i, x in enumerate(batches)", "i in range(200)", "i in range(len(batches))"])
def test_work_follows_a_clock_that_the_last_followed_iteration_starts(loop):
    assert lines(loop=loop, **LATE) == [15]


def test_a_clock_of_every_iteration_needs_no_further_iteration():
    assert lines(after="start = time.time()", end="times.append(time.time() - start)") == []


@pytest.mark.parametrize("parameter", ["device", "dev_id", "device_id"])
def test_a_file_that_moves_a_model_to_a_device_may_use_a_gpu(parameter):
    assert lines(parameter=parameter, **GUARDED) == [14]


def test_a_file_that_names_no_device_uses_no_gpu():
    assert lines(parameter="dtype", **GUARDED) == []


def test_layers_of_torch_do_not_wait():
    assert lines(step="pass", criterion="torch.nn.MSELoss()", **LATE) == [15]
    assert lines(step="pass", criterion="losses.MSELoss()", **LATE) == []
    assert lines(step="pass", criterion="torch.nn.CTCLoss()", **(LATE | {"after": GUARDED["after"]})) == []


GLOO = """
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def main(batches, optimizer):
    dist.init_process_group({backend})
    model = DistributedDataParallel(Net().cuda())
    for x in batches:
        start = time.time()
        model(x.cuda()).sum().backward()
        print(time.time() - start)
"""


@pytest.mark.parametrize(
    ("backend", "expected"),
    [("'gloo'", []), ("backend='gloo'", []), ("'nccl'", [13]), ("args.backend", [13]), ("'gloo', group='nccl'", [13])],
)
def test_a_backward_pass_that_gloo_ends_waits(backend, expected):
    found = lint_source("m.py", Text(GLOO.format(backend=backend))).findings
    assert [f.location.frame.line for f in found if f.rule.code == "SYN701"] == expected


LOGGED = """
import time
import torch

def train(model, batches, optimizer):
    model = model.cuda()
    start = time.time()
    for i, x in enumerate(batches):
        loss = model(x)
        loss.backward()
        optimizer.step()
        {read}
    print(time.time() - start)
"""


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ("pass", [13]),
        ("if i % 100 == 0: print(loss.item())", [13]),  # up to 99 iterations may be pending
        ("if i % 100 == 0 and rank == 0: print(loss.item())", [13]),
        ("print(loss.item())", []),
    ],
)
def test_a_wait_in_some_iterations_is_not_enough(read, expected):
    found = lint_source("m.py", Text(LOGGED.format(read=read))).findings
    assert [f.location.frame.line for f in found if f.rule.code == "SYN701"] == expected


CONTIGUOUS = """
import time
import torch

def train(model, batches, optimizer, n):
    model = model.cuda()
    start = time.time()
    step = 0
    while step < n:
        for x in batches:
            loss = model(x)
            loss.backward()
        optimizer.step()
        now = time.time()
        spent = now - start
        start = now
        if step % 10 == 0:
            print(spent, loss.item())
        step += 1
"""


def test_an_interval_that_begins_where_the_last_one_ended():
    found = lint_source("m.py", Text(CONTIGUOUS)).findings
    assert [f for f in found if f.rule.code == "SYN701"] == []
