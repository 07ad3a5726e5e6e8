"""Streams that a function creates and that never wait for the stream which computes what they use."""

import textwrap

import pytest

from syncheck.lint.patterns import unforked_streams
from tests.unit.lint.checking import found_by

SOURCE = """
import torch
def offload(x, weight, params, keep, wide):
    side = torch.cuda.Stream()
    {before}
    with torch.cuda.stream(side):
        {work}
    {after}
    return y
"""
PARTS = {"before": "y = torch.matmul(x, weight)", "work": "keep.append(Chunk(x[:4]))", "after": "side.synchronize()"}


def found(**parts):
    return found_by(unforked_streams, textwrap.dedent(SOURCE.format(**(PARTS | parts))))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"work": "keep.append(pack(y.view(-1)))"},
        {"work": "keep[0] = quantize(params['a'])", "before": "y = keep"},
        {"work": "keep[0] = scale(x=weight)"},
        {"after": "torch.cuda.current_stream().wait_stream(side)"},
        {"after": "done = torch.cuda.Event(); done.record(side)"},
    ],
)
def test_an_input_of_the_current_stream_needs_a_wait(parts):
    assert found(**parts) == [("SYN105", 7)]


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "y = torch.matmul(x, weight); side.wait_stream(torch.cuda.current_stream())"},
        {"before": "y = torch.matmul(x, weight); side.wait_event(wide)"},
        {"before": "y = torch.matmul(x, weight); torch.cuda.synchronize()"},
        {"before": "y = torch.matmul(x, weight); print(y.item())"},
        {"before": "y = torch.matmul(x, weight); wide.start(side)"},
        {"before": "y = torch.matmul(x, weight); side = wide"},
        {"before": "y = wide"},
        {"before": "y = torch.zeros(4)", "work": "keep.append(Chunk(y))"},
        {"work": "keep.append(x.shape)"},
        {"work": "keep.append(wide.to(device, non_blocking=True))"},
        {"work": "x = load(); keep.append(Chunk(x))"},
        {"work": "keep.append(load(param_names[0]))"},
        {"after": "wide.later(side)"},
        {"after": "g = torch.cuda.CUDAGraph(); torch.cuda.graph(g)"},
    ],
)
def test_ordered_streams_and_data_of_the_host_are_not_reported(parts):
    assert found(**parts) == []


KEPT = """
import torch
class Runner:
    def __init__(self):
        self.side = torch.cuda.Stream()
    {decorator}
    def run(self, parts):
        batch = torch.cat(parts)
        with torch.cuda.stream(self.side):
            batch = self.model(batch)
        {after}
        return batch
    {other}
"""
KEPT_PARTS = {"decorator": "@torch.no_grad()", "after": "self.side.synchronize()", "other": ""}


def found_in_class(**parts):
    return found_by(unforked_streams, textwrap.dedent(KEPT.format(**(KEPT_PARTS | parts))))


@pytest.mark.parametrize("parts", [{}, {"after": "torch.cuda.current_stream().wait_stream(self.side)"}])
def test_an_input_of_a_stream_of_the_class_needs_a_wait(parts):
    assert found_in_class(**parts) == [("SYN105", 10)]


@pytest.mark.parametrize(
    "parts",
    [
        {"decorator": "@ordered"},
        {"other": "def prepare(self): self.side.wait_stream(torch.cuda.current_stream())"},
        {"other": "def prepare(self): order(self.side)"},
        {"other": "def prepare(self): order(getattr(self, 'side'))"},
        {"other": "def all(self, parts):\n        with torch.cuda.stream(self.side): self.run(parts)"},
    ],
)
def test_a_stream_of_the_class_that_other_code_may_order_is_not_reported(parts):
    assert found_in_class(**parts) == []
