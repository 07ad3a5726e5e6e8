"""Tensors that are recorded on the stream that they come from."""

import ast
import textwrap

import pytest

from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.patterns.recorded_streams import WORD, findings
from syncheck.lint.source_file import SourceFile
from syncheck.rules.model import Severity

SOURCE = """
{define} run(self, x, gate, done):
    {make}
    {fork}
    with {enter}:
        {work}
    {after}
"""
PARTS = {
    "define": "def",
    "make": "current = torch.cuda.current_stream()",
    "fork": "self.side.wait_stream(current)",
    "enter": "torch.cuda.stream(self.side)",
    "work": "y = gate(x); x.record_stream(current)",
    "after": "return y",
}
MESSAGE = "`x` may be reused while stream `self.side` is still reading it"


def found(**given):
    """Return the findings in a function, some of whose parts are given."""
    file = SourceFile("program.py", SOURCE.format(**PARTS | given))
    return list(findings(file.tree.body[0], SourceSites(file)))


def messages(**given):
    return [finding.message for finding in found(**given)]


def test_a_tensor_recorded_on_its_own_stream_is_reported_where_it_is_recorded():
    (finding,) = found()
    assert (finding.rule.code, finding.level, finding.message) == ("SYN201", Severity.WARNING, MESSAGE)
    assert (finding.location.frame.line, finding.location.frame.function) == (6, "run")
    assert WORD in SOURCE.format(**PARTS)


@pytest.mark.parametrize(
    "given",
    [
        {"define": "async def"},
        {"make": "current = torch.cuda.default_stream()"},
        {"fork": "self.side.wait_stream(torch.cuda.current_stream())"},
        {"fork": "pass", "work": "self.side.wait_stream(current); y = gate(x); x.record_stream(current)"},
        {"enter": "guard(), torch.cuda.stream(self.side)"},
        {"enter": "torch.cuda.StreamContext(self.side)"},
        {"work": "y = gate(h=x); x.record_stream(current)"},
        {"work": "y = gate(x.view(-1)); x.record_stream(current)"},
        {"work": "x.record_stream(current); y = gate(x)"},
        {"fork": "self.side.wait_stream(current); torch.cuda.synchronize()"},  # before the use
        {"after": "self.side.wait_stream(current)"},  # the other direction
    ],
)
def test_variants_are_reported(given):
    assert messages(**given) == [MESSAGE]


def test_each_tensor_is_reported():
    work = "y = gate(x, done); x.record_stream(current); done.record_stream(current)"
    assert messages(work=work) == [MESSAGE, MESSAGE.replace("`x`", "`done`")]


@pytest.mark.parametrize(
    "work",
    [
        "y = gate(x); x.record_stream(self.side)",
        "y = gate(x); x.record_stream(current); x.record_stream(self.side)",
        "y = gate(x); x.record_stream(done)",
        "x = gate(x); x.record_stream(current)",  # x is allocated on the side stream
        "y = gate(done); x.record_stream(current)",
        "y = gate(self.x); self.x.record_stream(current)",
        "y = gate(x); x.record_stream()",
        "y = gate(x); record_stream(current)",
        "y = gate(x)",
    ],
)
def test_other_records_are_not_reported(work):
    assert messages(work=work) == []


@pytest.mark.parametrize(
    "given",
    [
        {"make": "current = self.main"},
        {"make": "current = torch.cuda.Stream()"},
        {"make": "current = torch.cuda.current_stream(); current = done"},
        {"make": "current, other = torch.cuda.current_stream(), done"},
        {"fork": "pass"},
        {"fork": "done.wait_stream(current)"},
        {"fork": "self.side.wait_stream(done)"},
        {"fork": "pass", "after": "self.side.wait_stream(current)"},
        {"enter": "torch.cuda.stream(make())"},
        {"enter": "torch.cuda.device(self.side)"},
        {"enter": "self.side"},
    ],
)
def test_a_block_that_does_not_follow_a_current_stream_is_not_reported(given):
    assert messages(**given) == []


def test_within_the_block_the_current_stream_is_the_side_stream():
    fork = "self.side.wait_stream(torch.cuda.current_stream())"
    assert messages(fork="pass", work=f"{fork}; {PARTS['work']}") == []
    assert messages(fork=fork, make="pass", work=f"{PARTS['make']}; {PARTS['work']}") == []


@pytest.mark.parametrize(
    "after",
    [
        "current.wait_stream(self.side)",
        "current.wait_event(done)",
        "self.side.synchronize()",
        "torch.cuda.synchronize()",
        "done.wait()",
        "self.finish(y)",
    ],
)
def test_a_side_stream_that_may_be_waited_for_is_not_reported(after):
    assert messages(after=after) == []


def test_nested_functions_are_checked_by_themselves():
    inner = SOURCE.format(**PARTS)
    file = SourceFile("program.py", "def outer():\n" + textwrap.indent(inner, "    "))
    outer = file.tree.body[0]
    (nested,) = (node for node in outer.body if isinstance(node, ast.FunctionDef))
    assert list(findings(outer, SourceSites(file))) == []
    assert [finding.message for finding in findings(nested, SourceSites(file))] == [MESSAGE]
