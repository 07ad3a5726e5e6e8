"""Waits for an event right after its record on the same stream."""

import pytest

from syncheck.lint.patterns import useless_waits
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of


def found(body, more="", after=""):
    block = "".join(f"        {line}\n" for line in body.split("\n"))
    source = (
        f"import torch\ndef f(event, other, stream, side):\n    with torch.cuda.stream(side):\n{block}{after}{more}"
    )
    file = SourceFile("file.py", source)
    assert useless_waits.can_matter(source)
    return [(f.rule.code, f.location.frame.line) for f in useless_waits.findings(context_of(file))]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("event.record()\nevent.wait()", 5),
        ("y = g()\nevent.record()\nevent.wait()", 6),
        ("event.record(side)\nevent.wait(side)", 5),
        ("event.record(side)\nside.wait_event(event)", 5),
        ("self.events[0].record()\nself.events[0].wait()", 5),
    ],
)
def test_a_wait_on_the_stream_that_recorded_is_reported(body, line):
    assert found(body) == [("SYN407", line)]


@pytest.mark.parametrize(
    "body",
    [
        "event.record(side)\nevent.wait(stream)",
        "event.record(side)\nevent.wait()",
        "event.record()\nstream.wait_event(event)",
        "event.record()\nother.wait()",
        "event.record()\nevent.wait()\nstream.wait_event(event)",
        "event.record()\nevent.wait()\nevent.synchronize()",
        "event.record()\nevent.wait()\nqueue.put(event)",
        "event.record()\nevent.wait()\nself.done = event",
        "event.record()\nevent.wait()\nreturn event",
    ],
)
def test_a_wait_of_another_stream_or_one_that_is_not_the_only_one_is_not_reported(body):
    assert found(body) == []


def test_a_wait_elsewhere_makes_the_event_useful():
    assert found("event.record()\nevent.wait()", "def g(event):\n    event.synchronize()\n") == []
    assert found("event.record()\nevent.wait()", "def g(event):\n    event.record()\n") != []
    assert found("event.record()", after="    event.wait()\n") == []


OF_ITSELF = """
import torch
def f(x, side, main):
    with torch.cuda.stream(side):
        y = x.cuda(non_blocking=True)
        done = {record}
    {before}
    {wait}
    {after}
    return y + 1
"""


def found_of_itself(record="side.record_event()", before="pass", wait="side.wait_event(done)", after="pass"):
    source = OF_ITSELF.format(record=record, before=before, wait=wait, after=after)
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in useless_waits.findings(context_of(file))]


def test_the_only_wait_for_an_event_by_the_stream_that_recorded_it_is_reported():
    assert found_of_itself() == [("SYN407", 8)]


@pytest.mark.parametrize(
    "given",
    [
        {"wait": "main.wait_event(done)"},
        {"after": "main.wait_event(done)"},
        {"after": "done.synchronize()"},
        {"after": "queue.put(done)"},
        {"record": "torch.cuda.current_stream().record_event()"},
        {"wait": "side.wait_stream(main)"},
        {"before": "side, main = main, side"},
        {"before": "side = next(pool)"},
        {"record": "self.side.record_event()", "wait": "sides[0].wait_event(done)"},
        {"record": "sides[0].record_event()", "wait": "sides[0].wait_event(done)"},  # the list may have been rotated
    ],
)
def test_an_event_with_another_use_is_not_reported(given):
    assert found_of_itself(**given) == []


def test_a_host_copy_needs_a_wait_of_the_host():
    source = OF_ITSELF.format(record="side.record_event()", before="pass", wait="side.wait_event(done)", after="pass")
    for text, advice in ((source, "stream that uses"), (source.replace("x.cuda(", "x.to('cpu', "), "synchronize()")):
        file = SourceFile("file.py", text)
        (finding,) = useless_waits.findings(context_of(file))
        assert advice in finding.help


def test_a_stream_of_an_object_counts_if_only_the_constructor_sets_it():
    method = "    def f(self, x):\n        done = self.side.record_event()\n        self.side.wait_event(done)\n"
    kind = "class A:\n    def __init__(self):\n        self.side = torch.cuda.Stream()\n"
    renew = "    def renew(self):\n        self.side = torch.cuda.Stream()\n"
    for source, n_found in ((kind + method, 1), (kind + method + renew, 0)):
        file = SourceFile("file.py", source)
        assert len(list(useless_waits.findings(context_of(file)))) == n_found
