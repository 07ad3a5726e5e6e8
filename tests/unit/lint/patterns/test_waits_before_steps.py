"""Waits of a side stream that come before the optimizer's step whose result it reads."""

import pytest

from syncheck.lint.patterns import waits_before_steps
from tests.unit.lint.program import reported

SOURCE = """
import torch


def train(model, average, optimizer, batches, every):
    side = torch.cuda.Stream()
    main = torch.cuda.current_stream()
    weights = [p.detach() for p in model.parameters()]
    for batch in batches:
        model(batch).mean().backward()
        main.wait_stream(side)
        side.wait_stream(main)
        optimizer.step()
        if every:
            with torch.cuda.stream(side):
                torch._foreach_lerp_(average, weights, 0.1)
"""
WAIT, STEP = "        side.wait_stream(main)\n", "        optimizer.step()\n"
LINE = 12


def found(*changes):
    return reported(SOURCE, changes, "reads afterwards")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("average, optimizer,", "average, self,"), ("optimizer.step()", "self.optim.step()")],
        [("side.wait_stream(main)", "side.wait_event(main.record_event())")],
        [("        if every:\n            with", "        if every or batch:\n            with")],
    ],
)
def test_a_wait_before_the_step_is_reported(changes):
    assert found(*changes) == [("SYN105", LINE)]


@pytest.mark.parametrize(
    "changes",
    [
        [(WAIT + STEP, STEP + WAIT)],
        [("            with", "            side.wait_stream(main)\n            with")],
        [("average, weights, 0.1", "average, batch, 0.1")],
        [(STEP, "        scheduler.step()\n")],
        [("torch.cuda.stream(side)", "torch.cuda.stream(main)")],
    ],
    ids=["wait after the step", "another wait", "other tensors", "a scheduler", "another stream"],
)
def test_other_orders_are_not_reported(changes):
    assert found(*changes) == []


def test_only_files_with_parameters_are_searched():
    assert waits_before_steps.can_matter(SOURCE)
    assert not waits_before_steps.can_matter(SOURCE.replace(".parameters(", "("))
