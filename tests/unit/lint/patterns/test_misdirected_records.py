"""Tensors recorded on the stream that they come from."""

import pytest

from syncheck.lint.patterns.misdirected_records import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

PACK = """import torch
def pack(self, x, pool):
    compute = torch.cuda.current_stream(x.device)
    host = torch.empty_like(x, device="cpu", pin_memory=True)
    self.side.wait_stream({waited})
    with torch.cuda.stream(self.side):
        {work}
    {after}
    x.record_stream({recorded})
    return host
"""
PARTS = {"waited": "compute", "work": "host.copy_(x, non_blocking=True)", "after": "pass", "recorded": "compute"}


def found(**changes):
    source = SourceFile("a.py", PACK.format(**PARTS | changes))
    assert can_matter(source.text)
    return list(findings(context_of(source)))


def test_a_record_on_the_stream_that_the_tensor_comes_from():
    (finding,) = found()
    assert (finding.rule.code, finding.location.frame.line) == ("SYN201", 9)
    assert finding.help == "record it on the stream that uses it: `x.record_stream(self.side)`"


@pytest.mark.parametrize("recorded", ["torch.cuda.current_stream()", "torch.cuda.current_stream(x.device)"])
def test_the_current_stream_need_not_have_a_name(recorded):
    assert len(found(recorded=recorded, waited=recorded)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"recorded": "self.side"},
        {"recorded": "pool.stream"},
        {"waited": "pool.stream"},
        {"work": "host.copy_(pool.next(), non_blocking=True)"},
        {"work": "x = x.to('cuda'); host.copy_(x, non_blocking=True)"},
        {"after": "compute.wait_stream(self.side)"},
        {"after": "self.side.synchronize()"},
        {"after": "x.record_stream(self.side)"},
    ],
)
def test_no_report(changes):
    assert found(**changes) == []
