"""Objects that read parameters on a stream which the next step of the optimizer does not wait for."""

import pytest

from syncheck.lint.patterns import averages
from tests.unit.lint.checking import found_by

SOURCE = """
class Average:
    def __init__(self, model):
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.shadow = [p.clone() for p in self.params]
        self.stream = torch.cuda.Stream()
        self.done = torch.cuda.Event()
    def update(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with {context}:
            torch._foreach_lerp_(self.shadow, {read}, 0.1)
            self.done.record()
        {end}
    def join(self):
        {join}
class Trainer:
    def __init__(self, model):
        self.opt = torch.optim.SGD(model.parameters())
        self.average = Average(model)
    def train(self, x):
        self.model(x).sum().backward()
        {before}
        self.opt.step()
        {after}
    def other(self):
        {other}
"""
PARTS = {
    "context": "torch.cuda.stream(self.stream)",
    "read": "self.params",
    "end": "pass",
    "join": "torch.cuda.current_stream().wait_event(self.done)",
    "before": "pass",
    "after": "self.average.update()",
    "other": "pass",
}


def found(**parts):
    return found_by(averages, SOURCE.format(**(PARTS | parts)))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"context": "torch.cuda.stream(self.stream) if self.stream else nullcontext()"},
        {"read": "[p.data for p in self.params]"},
        {"join": "torch.cuda.current_stream().wait_stream(self.stream)"},
        {"join": "pass"},
    ],
)
def test_the_step_that_does_not_wait_is_reported(parts):
    assert found(**parts) == [("SYN105", 23)]


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "self.average.join()"},
        {"before": "torch.cuda.synchronize()"},
        {"end": "torch.cuda.current_stream().wait_stream(self.stream)"},
        {"end": "self.stream.synchronize()"},
        {"read": "self.buffers"},
        {"before": "self.average.update()", "after": "pass"},  # the step reads what the average has not changed
        {"after": "self.log(x)"},
        {"other": "self.average.join()"},  # perhaps before each step
    ],
)
def test_a_step_that_waits_and_other_objects_are_not_reported(parts):
    assert found(**parts) == []
