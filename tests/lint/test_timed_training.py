"""Clocks around training steps that other functions of the same file run."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

SOURCE = """
import time
import torch

def step(net, batch, criterion, optimizer):
    result = net.training_step(batch)
    {backward}
    {update}
    {after}
    return result

def train(net, batches, criterion, optimizer, rows):
    for batch in batches:
        batch = batch.to("cuda")
        begin = time.perf_counter()
        result = step(net, batch, criterion, optimizer)
        {wait}
        rate = 32 / (time.perf_counter() - begin)
        rows.append(rate)
"""
LINES = {"backward": "result['loss'].backward()", "update": "optimizer.step()", "after": "pass", "wait": "pass"}

METHODS = """
import time
import torch

class Trainer:
    def __init__(self, net, criterion, optimizer, device):
        self.net = net.to("cuda")
        self.criterion = criterion
        self.optimizer = optimizer
        self.device = device

    def iterate(self, batch, target):
        batch = batch.to(self.device)
        loss = self.criterion(self.net(batch), target)
        value = loss.item()
        {update}
        return value

    def run(self, batches, meter):
        for batch, target in batches:
            begin = time.time()
            value = self.iterate(batch, target)
            elapsed = time.time() - begin
            meter.update(elapsed)
"""


def found(source):
    result = lint_source("m.py", Text(textwrap.dedent(source)))
    assert not result.problem, result.problem
    return [(f.rule.code, f.location.frame.line, str(f.level)) for f in result.findings]


def timed(**given):
    return [code for code, *_ in found(SOURCE.format(**LINES | given))]


def test_a_clock_misses_the_training_step_of_another_function():
    assert found(SOURCE.format(**LINES)) == [("SYN701", 18, "warning")]


@pytest.mark.parametrize(
    ("backward", "update"),
    [("pass", "optimizer.step()"), ("result['loss'].backward()", "pass"), ("pass", "net.scaler.step(optimizer)")],
)
def test_one_launch_is_enough(backward, update):
    assert timed(backward=backward, update=update) == ["SYN701"]


@pytest.mark.parametrize(
    "given",
    [
        {"wait": "torch.cuda.synchronize()"},
        {"wait": "value = result['loss'].item()"},
        {"after": "torch.cuda.synchronize()"},
        {"after": "value = result['loss'].item()"},
        {"after": "value = float(result['loss'])"},
        {"after": "print(result)"},
        {"after": "text = f'{result}'"},
        {"after": "import math; math.isfinite(result['norm'])"},
        {"backward": "pass", "update": "scheduler.step()"},
        {"backward": "pass", "update": "pass"},
    ],
)
def test_a_wait_after_the_step_is_enough(given):
    assert timed(**given) == []


def test_a_clock_in_a_method_that_names_no_device_misses_the_step_of_another_method():
    assert found(METHODS.format(update="self.optimizer.step()")) == [("SYN701", 23, "warning")]
    assert found(METHODS.format(update="self.scheduler.step()")) == []


def test_training_on_the_host_is_not_asynchronous():
    assert found(METHODS.format(update="self.optimizer.step()").replace('"cuda"', '"cpu"')) == []


def test_accumulating_gradients_without_communication_waits_for_nothing():
    inside = "with net.no_sync():\n        result['loss'].backward()"
    assert timed(backward=inside, update="pass") == ["SYN701"]
    assert timed(backward=inside.replace("no_sync", "flush"), update="pass") == []
