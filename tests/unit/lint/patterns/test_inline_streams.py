"""Streams created inside a `with` statement."""

import textwrap

import pytest

from syncheck.lint.patterns.inline_streams import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

SOURCE = """
import torch

def build({parameters}):
    {before}
    with torch.cuda.stream({stream}):
        {work}
    {after}
"""


def found(work, *, before="pass", after="return made", stream="torch.cuda.Stream()", known=()):
    source = SOURCE.format(parameters="net, loss", before=before, work=work, after=after, stream=stream)
    file = SourceFile("program.py", textwrap.dedent(source))
    said = [(f.location.frame.line, f.message) for f in findings(context_of(file, known))]
    assert not said or can_matter(source)
    return said


def test_nothing_can_wait_for_an_unnamed_stream():
    ((line, message),) = found("made = Wrapper(net)")
    assert line == 6
    assert message == "nothing waits for the stream that is created here, and it waits for no other stream"


def test_values_read_by_the_host_may_be_read_too_early():
    ((_, message),) = found("made = loss.detach().cpu().item()")
    assert message == "the stream that is created here never waits for the stream that computes what it reads"


@pytest.mark.parametrize("stream", ["torch.cuda.Stream() if cuda else None", "torch.cuda.Stream(device=0)"])
def test_other_expressions_that_create_a_stream_are_found(stream):
    assert found("made = Wrapper(net)", stream=stream)


@pytest.mark.parametrize(
    "given",
    [
        {"work": "torch.cuda.current_stream().wait_stream(main); made = Wrapper(net)"},
        {"work": "made = Wrapper(net); torch.cuda.current_stream().synchronize()"},
        {"work": "made = capture(net)"},
        {"work": "made = net"},
        {"work": "made = torch.ones(4)"},
        {"work": "torch.cuda._sleep(10); made = net.step()"},
        {"work": "made = Wrapper(net)", "after": "torch.cuda.synchronize()"},
        {"work": "made = Wrapper(net)", "before": "torch.cuda.synchronize()"},
        {"work": "made = Wrapper(net)", "before": "dist.barrier()"},
        {"work": "made = Wrapper(net)", "stream": "self.side"},
        {"work": "made = Wrapper(net)", "stream": "side if side else torch.cuda.Stream()"},
        {"work": "made = Wrapper(net)", "stream": "make()"},
    ],
)
def test_possibly_ordered_or_harmless_work_is_not_reported(given):
    assert found(**given) == []


@pytest.mark.parametrize(
    ("before", "is_found"),
    [
        ("net = net.to(device)", False),
        ("net = net.cuda()", False),
        ("net = net.to(device, non_blocking=True)", True),
        ("net = net.to(dtype)", True),
        ("net = net.to(device); x = f(net)", True),  # new work on the current stream
    ],
)
def test_a_blocking_copy_right_before_the_block_waits(before, is_found):
    assert bool(found("made = loss.detach().cpu().item()", before=before)) == is_found
