"""Private events of objects that are waited for and never recorded."""

import pytest

from syncheck.lint.patterns.private_events import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

SOURCE = """
import threading
import torch

class Handle:
    def __init__(self, stream):
        self.stream = stream
        self._event = {event}
        {other}

    def ready(self):
        return {ready}

    def wait(self):
        {wait}
"""
PARTS = {
    "event": "torch.cuda.Event()",
    "other": "self.n = 0",
    "ready": "self._event.query()",
    "wait": "self._event.wait()",
}


def found(**parts):
    text = SOURCE.format(**(PARTS | parts))
    source = SourceFile("handle.py", text)
    return list(findings(context_of(source))) if can_matter(text) else []


@pytest.mark.parametrize(
    ("parts", "waiter"),
    [
        ({}, "the stream"),
        ({"event": "torch.Event(device='cuda')"}, "the stream"),
        ({"wait": "self._event.synchronize()"}, "the host"),
        ({"wait": "torch.cuda.current_stream().wait_event(self._event)"}, "the stream"),
        ({"ready": "True"}, "the stream"),
    ],
)
def test_a_wait_for_an_event_that_is_never_recorded_does_nothing(parts, waiter):
    (finding,) = found(**parts)
    assert (finding.rule.code, finding.location.frame.line) == ("SYN401", 15)
    assert finding.message.startswith(f"{waiter} waits for `self._event`")
    assert [related.frame.line for related in finding.related] == [8]


@pytest.mark.parametrize(
    "parts",
    [
        {"other": "self._event.record()"},
        {"other": "stream.record_event(self._event)"},
        {"other": "launch(self._event)"},
        {"other": "self.events = [self._event]"},
        {"other": "self._event = make_event()"},
        {"other": "record = self._event.record"},
        {"event": "threading.Event()"},
        {"event": "torch.cuda.Event(interprocess=True)"},
        {"event": "make_event()"},
        {"wait": "pass"},
    ],
)
def test_an_event_that_others_may_record_is_not_reported(parts):
    assert found(**parts) == []


def test_a_wait_that_is_reported_already_is_not_reported_again():
    source = SourceFile("handle.py", SOURCE.format(**PARTS))
    (finding,) = findings(context_of(source))
    assert list(findings(context_of(source, [finding]))) == []


RECORDED = """
import torch
class Offloader:
    def __init__(self, n):
        self._ready = []
        for _ in range(n):
            self._ready.append(torch.cuda.Event())
    def load(self, i):
        self._ready[i].record(self.stream)
    def use(self, i):
        {use}
"""


def found_unused(use, name="_ready"):
    text = RECORDED.format(use=use).replace("_ready", name)
    source = SourceFile("offloader.py", text)
    return [(f.rule.code, f.location.frame.line) for f in findings(context_of(source))]


def test_private_events_that_are_recorded_and_never_waited_for_are_reported():
    assert found_unused("return self.loaded[i]") == [("SYN105", 9)]


@pytest.mark.parametrize(
    "use",
    [
        "self.current.wait_event(self._ready[i])",
        "return self._ready[i]",
        "self.current.wait_stream(self.stream)",
        "torch.cuda.synchronize()",
        "self._ready[i].query()",
    ],
)
def test_private_events_or_streams_that_something_waits_for_are_not_reported(use):
    assert found_unused(use) == []


def test_another_file_may_wait_for_a_public_event():
    assert found_unused("return self.loaded[i]", "ready") == []
