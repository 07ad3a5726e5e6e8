"""Steps of an optimizer before the wait for the collectives that reduce its gradients."""

import pytest

from syncheck.lint.patterns import steps_before_waits
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of
from tests.unit.lint.program import reported

SOURCE = """
import torch
import torch.distributed as dist

def train(model, optimizer, data):
    for x in data:
        model(x).sum().backward()
        works = []
        for p in model.parameters():
            works.append(dist.all_reduce(p.grad, async_op=True))
        optimizer.step()
        for work in works:
            work.wait()
        optimizer.zero_grad()
"""
STEP, WAIT = "        optimizer.step()\n", "        for work in works:\n            work.wait()\n"
START = "works.append(dist.all_reduce(p.grad, async_op=True))"


def found(*changes):
    return reported(SOURCE, changes, "is used before its `wait()`")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("optimizer.step()", "scaler.step(optimizer)")],
        [(START, "works.append((p, dist.all_reduce(p.grad.data, async_op=True)))"), ("for work in", "for _, work in")],
        [(START, "work = dist.all_reduce(p.grad, async_op=True)\n            works.append(work)")],
        [("optimizer.step()", "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")],
        [(WAIT, "        while works:\n            works.pop().wait()\n")],
    ],
)
def test_a_step_before_the_wait_is_reported(changes):
    assert found(*changes)


@pytest.mark.parametrize(
    "changes",
    [
        [(STEP + WAIT, WAIT + STEP)],
        [(STEP, "        wait_all(works)\n" + STEP)],
        [(STEP, "        torch.cuda.synchronize()\n" + STEP)],
        [("p.grad", "p.data")],
        [(", async_op=True", "")],
        [("optimizer.step()", "scheduler.step()")],
    ],
)
def test_other_orders_are_not_reported(changes):
    assert not found(*changes)


def test_the_start_of_the_collective_is_shown():
    source = SourceFile("m.py", SOURCE)
    (finding,) = steps_before_waits.findings(context_of(source))
    assert finding.help == "move the wait for the handles in line 12 before this"
    assert [related.frame.line for related in finding.related] == [10]


def test_files_without_gradients_do_not_matter():
    assert steps_before_waits.can_matter(SOURCE)
    assert not steps_before_waits.can_matter(SOURCE.replace("p.grad", "p"))
