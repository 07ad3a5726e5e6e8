"""Events whose time is asked for although the host has not waited for them."""

import pytest

from syncheck.lint.patterns import unready_events
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of


def found(body):
    source = "import torch\ndef f(start, end, stream, block):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    file = SourceFile("file.py", source)
    if not unready_events.can_matter(source):
        return []
    return [(f.rule.code, f.location.frame.line) for f in unready_events.findings(context_of(file))]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("stream.wait_event(end)\nreturn start.elapsed_time(end)", 4),
        ("end.wait(stream)\nreturn start.elapsed_time(end)", 4),
        ("for s, e in start:\n    stream.wait_event(e)\n    total(s.elapsed_time(e))", 5),
        ("if not end.query():\n    log(end)\nreturn start.elapsed_time(end)", 5),
        ("while start.query():\n    return start.elapsed_time(end)", 4),
        (
            "while start:\n    if not end.query():\n        if block:\n            break\n    start.elapsed_time(end)",
            7,
        ),
    ],
)
def test_a_time_that_nothing_waits_for_is_reported(body, line):
    assert found(body) == [("SYN404", line)]


@pytest.mark.parametrize(
    "body",
    [
        "stream.wait_event(end)\nend.synchronize()\nreturn start.elapsed_time(end)",
        "stream.wait_event(start)\nreturn start.elapsed_time(end)",  # the host may know about the end
        "stream.wait_event(end)\ntorch.cuda.synchronize()\nreturn start.elapsed_time(end)",
        "stream.wait_event(end)\nloss.item()\nreturn start.elapsed_time(end)",
        "t = start.elapsed_time(end)\nend.wait(stream)",
        "if not end.query():\n    return 0\nreturn start.elapsed_time(end)",
        "if not end.query():\n    end.synchronize()\nreturn start.elapsed_time(end)",
        "if not end.query():\n    log(end)\nself.wait_for(end)\nreturn start.elapsed_time(end)",
        "if start.query() and end.query():\n    return start.elapsed_time(end)",
        "if start.query():\n    end.synchronize()\n    return start.elapsed_time(end)",
        "if end.query():\n    return start.elapsed_time(end)",
    ],
)
def test_a_time_that_the_host_may_have_waited_for_is_not_reported(body):
    assert found(body) == []


def test_a_more_specific_finding_in_the_same_line_comes_first():
    source = "def f(start, end, stream):\n    stream.wait_event(end)\n    return start.elapsed_time(end)\n"
    file = SourceFile("file.py", source)
    known = list(unready_events.findings(context_of(file)))
    assert len(known) == 1
    assert list(unready_events.findings(context_of(file, known))) == []


HOOKS = """
import torch
def times(model, x):
    pairs = []
    def before(*_):
        pairs.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
        pairs[-1][0].record()
    def after(*_):
        pairs[-1][1].record()
    model.register_forward_pre_hook(before)
    model.register_forward_hook(after)
    {work}
    return [start.elapsed_time(stop) for start, stop in pairs]
"""


@pytest.mark.parametrize(
    ("work", "lines"),
    [
        ("model(x)", [13]), ("model(x); torch.cuda.synchronize()", []), ("print(model(x))", []),
        ("model(x).item()", []),
        ("model(x)\n    from .helpers import finish; finish()", []),
    ],
)  # fmt: skip
def test_a_file_that_never_waits_asks_too_early(work, lines):
    file = SourceFile("file.py", HOOKS.format(work=work))
    assert unready_events.can_matter(file.text) or not lines
    assert [f.location.frame.line for f in unready_events.findings(context_of(file))] == lines
