"""Operators that raise."""

import sys

import pytest
import torch

from syncheck.cuda.callback_order import Callback, Kind
from syncheck.instrument.plan import plan_of

aten = torch.ops.aten


@pytest.fixture
def errors(gpu):
    return gpu.cuda.errors


def note(errors, operator, text="captured"):
    errors.note(None if operator is None else plan_of(operator), RuntimeError(text), sys._getframe())


def test_callbacks_of_a_failed_operator_are_discarded(gpu, errors):
    gpu.cuda.pending_callbacks.keep(sys._getframe(), Callback(Kind.RECORD, 1, 1))
    errors.note(None, RuntimeError(), sys._getframe())
    assert gpu.cuda.pending_callbacks.count == 0


def test_errors_outside_of_a_capture_are_not_reported(gpu, errors):
    note(errors, aten.nonzero.default)
    assert gpu.monitor.named("sync_in_capture") == []


@pytest.mark.parametrize(
    ("operator", "text", "is_refused"),
    [
        (aten.nonzero.default, "", True),
        (aten._to_copy.default, "", True),
        (aten.index.Tensor, "when stream is capturing", True),
        (aten.masked_fill.Tensor, "capturing", True),
        (aten.index.Tensor, "out of range", False),
        (aten.mm.default, "capturing", False),
    ],
    ids=lambda value: str(value) or "any",
)  # fmt: skip
def test_an_operator_that_cannot_be_captured_is_reported(gpu, errors, operator, text, is_refused):
    gpu.cuda.captures.begin()
    note(errors, operator, text)
    gpu.cuda.captures.end()
    assert bool(gpu.monitor.named("sync_in_capture")) is is_refused
    assert ([call[2] for call in gpu.monitor.named("launch")] == [plan_of(operator).name]) is not is_refused


def test_nothing_is_reported_while_not_checking(gpu, errors):
    gpu.cuda.is_checking = False
    gpu.cuda.captures.begin()
    note(errors, aten.nonzero.default)
    gpu.cuda.is_checking = True
    assert gpu.monitor.named("sync_in_capture") == []
