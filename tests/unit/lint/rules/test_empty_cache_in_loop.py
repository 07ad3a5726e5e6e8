"""SYN807 in source: a training loop empties the allocator's cache on every iteration."""

import pytest

from syncheck.lint.rules.empty_cache_in_loop import EmptyCacheInLoop
from tests.unit.lint.rules.syntactic import findings, found, lines

LOOP = "for x in data:\n    step(x).backward()\n    {use}\n"


@pytest.mark.parametrize(
    "call", ["torch.cuda.empty_cache()", "cuda.empty_cache()", "torch.xpu.empty_cache()", "torch.npu.empty_cache()",
             "torch.accelerator.empty_cache()"]
)  # fmt: skip
def test_a_training_loop_that_empties_the_cache_is_found(call):
    assert found(EmptyCacheInLoop, LOOP.format(use=call)) == [(3, call)]


def test_the_message_states_the_consequence():
    (finding,) = findings(EmptyCacheInLoop, LOOP.format(use="torch.cuda.empty_cache()"))
    assert finding.rule.code == "SYN807"
    assert "which waits for the device" in finding.message


@pytest.mark.parametrize(
    "use",
    ["if full: torch.cuda.empty_cache()", "torch.cuda.empty_cache", "self.empty_cache()", "torch.mps.empty_cache()",
     "torch.cuda.empty_cache(0)", "my.torch.cuda.empty_cache()", "gc.collect()"],
)  # fmt: skip
def test_other_calls_and_conditional_ones_are_not_reported(use):
    assert lines(EmptyCacheInLoop, LOOP.format(use=use)) == []


def test_a_loop_that_does_not_train_is_not_reported():
    assert lines(EmptyCacheInLoop, LOOP.format(use="torch.cuda.empty_cache()").replace("backward", "forward")) == []


def test_an_outer_loop_that_empties_the_cache_on_each_iteration_is_found():
    source = "while True:\n    for x in data: loss.backward()\n    torch.cuda.empty_cache()\n"
    assert lines(EmptyCacheInLoop, source) == [3]


def test_emptying_the_cache_once_per_epoch_is_not_reported():
    source = "for epoch in range(9):\n    for x in data: loss.backward()\n    torch.cuda.empty_cache()\n"
    assert lines(EmptyCacheInLoop, source) == []
