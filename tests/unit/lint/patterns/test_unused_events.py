"""Events that a function creates and records but that nothing waits for."""

import textwrap
from dataclasses import replace

import pytest

from syncheck.lint import deferred
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.patterns.unused_events import WORDS, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

SOURCE = """
def run(self, side, x, kept, flag):
    {make}
    {record}
    with torch.cuda.stream(side):
        {wait}
        return x * 2
"""
MADE, RECORD = "ready = torch.cuda.Event()", "ready.record()"


def found(make=MADE, record=RECORD, wait="pass"):
    source = textwrap.dedent(SOURCE.format(make=make, record=record, wait=wait))
    file = SourceFile("program.py", source)
    said = [(f.rule.code, f.location.frame.line) for f in findings(context_of(file))]
    assert not said or WORDS.search(source)
    return said


@pytest.mark.parametrize(
    ("make", "record", "line"),
    [
        (MADE, RECORD, 4),
        (MADE, "ready.record(torch.cuda.current_stream())", 4),
        (MADE, "if flag: ready.record()", 4),
        ("ready = torch.cuda.current_stream().record_event()", "pass", 3),
    ],
)
def test_an_event_that_nothing_waits_for_is_found(make, record, line):
    assert found(make, record) == [("SYN105", line)]


@pytest.mark.parametrize(
    "given",
    [
        {"wait": "side.wait_event(ready)"},
        {"wait": "ready.wait()"},
        {"wait": "ready.synchronize()"},
        {"wait": "self.done = ready"},
        {"wait": "kept.append(ready)"},
        {"wait": "return ready"},
        {"wait": "kept.hook(lambda: ready.wait())"},
        {"record": "pass"},
        {"record": "record = ready.record"},
        {"make": "ready = torch.cuda.Event(enable_timing=True)"},
        {"make": "ready = kept.pop()"},
        {"make": "ready = self.ready = torch.cuda.Event()"},
        {"make": "ready = torch.cuda.Event() if flag else kept[0]"},
        {"make": "global ready; ready = torch.cuda.Event()"},
        {"make": MADE, "record": "ready.record(); ready = None"},
    ],
)
def test_an_event_that_something_may_wait_for_is_not_reported(given):
    assert not found(**given)


def test_an_event_that_is_recorded_before_its_work_is_found():
    assert found(record="self.done = ready; ready.record(side)", wait="kept(x)") == [("SYN105", 4)]
    assert found(record="self.done = ready; ready.record(self.side)", wait="kept(x)") == []


def test_a_finding_about_the_work_is_more_specific():
    source = textwrap.dedent("""
        def stage(self, side, x):
            ready = torch.cuda.Event()
            with torch.cuda.stream(side):
                ready.record()
                y = copy(x)
            return ready
    """)
    file = SourceFile("program.py", source)
    functions = list(deferred.functions(file.tree.body))
    (early,) = findings(context_of(file, functions=functions))
    assert early.location.frame.line == 5
    sites = SourceSites(file)
    known = replace(early, location=sites.location(sites.id_of(functions[0].body[1].body[1])))
    assert not list(findings(context_of(file, [known], functions=functions)))
