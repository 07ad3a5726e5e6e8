"""Events that stand for the last use of memory, and that nothing waits for."""

import pytest

from syncheck.lint.patterns.unawaited_events import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

SOURCE = """
import threading
import torch

class Slot:
    def __init__(self, shape):
        self.data = torch.zeros(shape, device="cuda")
        {made}

class Ring:
    def __init__(self, shapes):
        self.slots = [Slot(shape) for shape in shapes]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def fill(self, slot, batch):
        {before}
        with torch.cuda.stream(self.stream):
            {work}

    def use(self, slot):
        current = torch.cuda.current_stream()
        y = slot.data * 2
        {record}
        return y

    def other(self, slot):
        {other}
"""
PARTS = {
    "made": "self.used = torch.cuda.Event()",
    "before": "batch = batch.pin_memory()",
    "work": "slot.data.copy_(batch, non_blocking=True)",
    "record": "slot.used.record(current)",
    "other": "return slot.data.shape",
}


def found(**parts):
    text = SOURCE.format(**(PARTS | parts))
    source = SourceFile("ring.py", text)
    return list(findings(context_of(source))) if can_matter(text) else []


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"made": "self.used: torch.cuda.Event | None = None"},
        {"made": "self.made = make(used=torch.Event('cuda'))"},
        {"record": "slot.used.record()"},
        {"record": "slot.used.record(torch.cuda.current_stream())"},
        {"record": "current.record_event(slot.used)"},
        {"record": "if slot.used is not None: slot.used.record(current)"},
        {"work": "slot.data = batch.to('cuda', non_blocking=True)"},
    ],
)
def test_a_use_that_nothing_waits_for_is_reported(parts):
    (finding,) = found(**parts)
    assert (finding.rule.code, finding.level.value) == ("SYN105", "warning")
    assert "slot.used" in finding.message
    assert "self.stream" in finding.help


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "self.stream.wait_event(slot.used)"},
        {"before": "slot.used.wait(self.stream)"},
        {"before": "self.wait()"},  # it may wait for it
        {"other": "slot.used.synchronize()"},
        {"other": "return slot.used"},  # whoever gets it may wait
        {"other": "return getattr(slot, 'used')"},
        {"other": "self.stream.wait_stream(torch.cuda.current_stream())"},
        {"record": "slot.used.record(self.stream)"},  # the work on the side stream
        {"record": "with torch.cuda.stream(self.stream): slot.used.record()"},
        {"record": "pass"},
        {"work": "y = slot.data.shape"},
        {"made": "self.used = threading.Event()"},
        {"made": "self.n = 0"},
    ],
)
def test_other_uses_are_not_reported(parts):
    assert not found(**parts)


def test_the_function_that_overwrites_may_record_itself():
    assert not found(work="slot.data.copy_(batch); slot.used.record(torch.cuda.current_stream())", record="pass")


def test_of_several_streams_it_is_unknown_which_should_wait():
    more = "with torch.cuda.stream(self.second):\n            slot.data.zero_()"
    assert not found(other=more)
    assert len(found(other=more.replace("second", "stream"))) == 1


def test_a_context_in_a_variable_is_recognized():
    source = SOURCE.replace("with torch.cuda.stream(self.stream):", "with context:")
    text = source.format(**(PARTS | {"before": "context = torch.cuda.stream(self.stream) if batch else nullcontext()"}))
    file = SourceFile("ring.py", text)
    assert len(list(findings(context_of(file)))) == 1


@pytest.mark.parametrize("word", ["Event", ".record", "stream("])
def test_files_without_the_words_are_not_searched(word):
    assert not can_matter(SOURCE.format(**PARTS).replace(word, ""))
