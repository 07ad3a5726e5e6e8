"""Callbacks of a trainer that clock each batch and wait for nothing."""

import textwrap

import pytest

from syncheck.lint.engine import lint_data
from syncheck.lint.patterns import batch_callbacks
from tests.unit.lint.checking import found_by

SOURCE = """
import time
import torch
from lightning.pytorch import Callback

class {name}({base}):
    def on_train_batch_{start}(self, trainer, module, batch, index):
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        {wait}
        self.times.append({taken})

    def on_train_epoch_end(self, trainer, module):
        self.loss = self.total.item()
"""
PARTS = {
    "name": "Speed",
    "base": "pl.Callback",
    "start": "start",
    "wait": "pass",
    "taken": "time.perf_counter() - self.began",
}


def found(**parts):
    return found_by(batch_callbacks, textwrap.dedent(SOURCE.format(**(PARTS | parts))))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"base": "TrainerCallback"},
        {"start": "begin"},
        {"taken": "time.perf_counter() - self.began)\n        if index % 100 == 0:\n            print(outputs.item()"},
    ],
)
def test_a_batch_that_is_clocked_between_hooks_is_reported(parts):
    assert found(**parts) == [("SYN701", 12)]


@pytest.mark.parametrize(
    "parts",
    [
        {"wait": "torch.cuda.synchronize()"},
        {"wait": "loss = outputs.item()"},
        {"base": "Logger"},
        {"start": "launch"},
        {"name": "RuntimeEstimator"},
        {"taken": "time.perf_counter() - self.other"},
        {"taken": "self.began"},
    ],
)
def test_other_callbacks_are_not_reported(parts):
    assert found(**parts) == []


def test_keras_is_left_out():
    assert not batch_callbacks.can_matter(SOURCE + "import tensorflow as tf\n")


def test_a_callback_needs_no_word_for_a_gpu():
    source = SOURCE.format(**PARTS).replace("import torch\n", "").encode()
    assert [finding.rule.code for finding in lint_data("speed.py", source).findings] == ["SYN701"]
