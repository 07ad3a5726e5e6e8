"""Methods that use what another method changes on the object's stream, without the wait of a third method."""

import pytest

from syncheck.lint.patterns import unjoined_reads
from tests.unit.lint.checking import found_by

AVERAGES = """
import torch
class Averages:
    def __init__(self, model):
        self.params = list(model.parameters())
        self.averages = [p.detach().clone() for p in self.params]
        self.stream = torch.cuda.Stream()
    def update(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            {change}
        {after}
    def state(self):
        {wait}
        return [average.clone() for average in self.averages]
    def apply(self):
        {before}
        {use}
    def run(self):
        {run}
"""
PARTS = {
    "change": "for a, p in zip(self.averages, self.params): a.lerp_(p.detach(), 0.1)",
    "after": "self.n = 1",
    "wait": "torch.cuda.current_stream().wait_stream(self.stream)",
    "before": "pass",
    "use": "for p, a in zip(self.params, self.averages): p.data.copy_(a)",
    "run": "pass",
}


def found(**parts):
    return found_by(unjoined_reads, AVERAGES.format(**(PARTS | parts)))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"change": "torch._foreach_lerp_(self.averages, self.params, 0.1)"},
        {"change": "for i, a in enumerate(self.averages): a.mul_(0.5)"},
        {"change": "self.averages[0].mul_(0.5)"},
        {"wait": "self.stream.synchronize()"},
        {"use": "return [a.clone() for a in self.averages]"},
        {"use": "return torch.stack(self.averages)"},
        {"use": "self.averages[0].detach().mul(2)"},
        {"run": "self.apply()"},
    ],
)
def test_a_use_without_the_wait_of_another_method_is_reported(parts):
    assert found(**parts) == [("SYN105", 18)]


@pytest.mark.parametrize(
    "parts",
    [
        {"wait": "pass"},  # the class relies on its callers
        {"wait": "self.other.synchronize()"},
        {"after": "torch.cuda.current_stream().wait_stream(self.stream)"},
        {"after": "self.stream.synchronize()"},
        {"before": "torch.cuda.current_stream().wait_stream(self.stream)"},
        {"before": "torch.cuda.synchronize()"},
        {"before": "self.state()"},
        {"use": "with torch.cuda.stream(self.stream): torch.stack(self.averages)"},
        {"use": "return len(self.averages)"},
        {"use": "return self.averages"},
        {"use": "return [p.clone() for p in self.params]"},
        {"use": "for p, a in zip(self.averages, self.params): a.mul_(2)"},  # of the parameters
        {"run": "torch.cuda.synchronize(); self.apply()"},
        {"change": "for a, p in zip(self.averages, self.params): a.copy_(p, non_blocking=True)"},
        {"change": "for p, a in zip(self.averages, self.params): a.mul_(0.1)"},
    ],
)
def test_other_uses_are_not_reported(parts):
    assert found(**parts) == []
