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
    return [(f.rule.code, f.location.frame.line, str(f.level)) for f in result.findings if f.rule.code == "SYN701"]


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
    assert found(METHODS.format(update="loss.backward(); self.optimizer.step()")) == [("SYN701", 23, "warning")]
    assert found(METHODS.format(update="self.optimizer.step()")) == []  # short, after a wait for all else
    assert found(METHODS.format(update="self.scheduler.step()")) == []


def test_training_on_the_host_is_not_asynchronous():
    assert found(METHODS.format(update="self.optimizer.step()").replace('"cuda"', '"cpu"')) == []


def test_accumulating_gradients_without_communication_waits_for_nothing():
    inside = "with net.no_sync():\n        result['loss'].backward()"
    assert timed(backward=inside, update="pass") == ["SYN701"]
    assert timed(backward=inside.replace("no_sync", "flush"), update="pass") == []


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("if loss < best:\n        best = loss", []),
        ("while loss > best:\n        break", []),
        ("if best and not loss < best:\n        best = loss", []),
        ("best = loss if loss < best else best", []),
        ("if loss is None:\n        return loss", ["SYN701"]),
        ("if best > 3:\n        best = 3", ["SYN701"]),
    ],
)
def test_a_condition_on_the_loss_waits(after, expected):
    lines = {"backward": "loss = result['loss']; best = net.best; loss.backward()", "update": "pass", "after": after}
    assert timed(**lines) == expected


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        ("evaluate(net)", []), ("tools.compute_accuracy(net)", []), ("generate_samples(net)", []),
        ("net.eval()", ["SYN701"]), ("net.train()", ["SYN701"]), ("rows.extend(batch)", ["SYN701"]),
    ],
)  # fmt: skip
def test_an_evaluation_waits(wait, expected):
    imported = "from tools import evaluate, generate_samples\nimport tools\n"
    assert [code for code, *_ in found(imported + SOURCE.format(**LINES | {"wait": wait}))] == expected


EPOCHS = """
import time
import torch

def train(net, batches, criterion, optimizer):
    total = 0.0
    for batch, target in batches:
        loss = criterion(net(batch.to("cuda"{mode})), target.to("cuda"{mode}))
        total {reduced}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return total

def main(net, batches, criterion, optimizer, epochs):
    times = []
    for epoch in range(epochs):
        begin = time.time()
        total = train(net, batches, criterion, optimizer)
        spent = time.time() - begin
        {use}
    return times
"""


FREE = ", non_blocking=True"


@pytest.mark.parametrize(
    ("reduced", "mode", "expected"),
    [
        ("+= loss.detach()", FREE, 1),
        ("+= loss.item()", FREE, 0),
        ("+= float(loss)", FREE, 0),
        ("+= loss.detach()", "", 0),  # the copy waits for the iteration before
    ],
)
def test_a_clock_around_a_loop_of_another_function_misses_little_if_it_waits(reduced, mode, expected):
    assert len(found(EPOCHS.format(reduced=reduced, use="times.append(spent)", mode=mode))) == expected


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("print('%d: %.1f s' % (epoch, spent))", 1),
        ("print('%d: about %.1f s (estimated)' % (epoch, spent))", 0),
        ("print(f'{spent} s (rough)')", 0),
        ("hours = spent // 3600\n        print(hours, spent)", 0),
        ("minutes = spent / 60\n        print(minutes)", 0),
        ("print('%.1f s (estimated)' % spent)\n        spent = len(batches)\n        print(spent)", 0),
    ],
)
def test_a_time_may_be_inexact(use, expected):
    assert len(found(EPOCHS.format(reduced="+= loss.detach()", use=use, mode=FREE))) == expected


def test_weights_made_on_a_gpu_and_moved_to_the_host_do_not_train_there():
    source = """
import time
import torch

def compare(layer, given):
    weight = torch.randn(4, 4, device="{device}").to("cpu")
    out = layer(weight)
    begin = time.time()
    out.backward(given)
    spent = time.time() - begin
    print(spent)
"""
    assert found(source.format(device="cuda")) == []
    assert [code for code, *_ in found(source.format(device="cuda").replace('.to("cpu")', ""))] == ["SYN701"]
