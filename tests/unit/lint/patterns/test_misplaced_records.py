"""Events that are recorded after the block whose copies they stand for."""

import pytest

from syncheck.lint.patterns import misplaced_records
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of
from tests.unit.lint.program import reported

LOADER = """
import torch
def load(host, device, side, ready, i):
    with torch.cuda.stream(side):
        copies = {{k: v.to(device, non_blocking=True) for k, v in host[i].items()}}
        x = copies["x"]
{inside}
    {record}
    {end}
{more}
"""
PARTS = {"record": "ready.record()", "end": "return x, ready", "inside": "", "more": ""}


def found(**parts):
    source = LOADER.format(**(PARTS | parts))
    if not misplaced_records.can_matter(source):
        return []
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in misplaced_records.findings(context_of(file))]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"end": "return Ticket(x, done=ready)"},
        {"end": "queue.put((1, 2)); queue.put(Ticket(x, ready))"},
        {"end": "yield x, ready"},
        {"record": "ready[i].record()", "end": "return x"},
        {"inside": "        host.copy_(x, non_blocking=True)", "end": "queue.put((host, ready))"},
        {"inside": "        x.record_stream(side)"},
    ],
)
def test_an_event_on_the_wrong_stream_is_reported(parts):
    assert found(**parts) == [("SYN105", 8)]


@pytest.mark.parametrize(
    "parts",
    [
        {"record": "ready.record(side)"},
        {"record": "torch.cuda.current_stream().wait_stream(side); ready.record()"},
        {"end": "return x"},
        {"end": "return ready"},
        {"record": "ready[0].record()", "end": "return x"},
        {"inside": "        ready.record()"},
        {"more": "def again(side, ready): side.wait_event(ready)"},
        {"more": "def again(side, ready):\n    with torch.cuda.stream(side):\n        ready.wait()"},
        {"more": "def again(start, ready): return start.elapsed_time(ready)"},
    ],
)
def test_an_event_for_the_work_of_the_current_stream_is_not_reported(parts):
    assert found(**parts) == []


def test_a_block_on_the_current_stream_is_no_side_stream():
    source = LOADER.format(**PARTS).replace("stream(side)", "stream(torch.cuda.current_stream())")
    file = SourceFile("file.py", source)
    assert list(misplaced_records.findings(context_of(file))) == []


SNAPSHOT = """
import torch
def snapshot(state, buffers, device):
    done, stream = torch.cuda.Event(), torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for name, tensor in state.items():
            buffers[name].copy_(tensor, non_blocking=True)
    done.record()
    done.synchronize()
    torch.save(buffers, "x")
"""


def test_an_event_that_the_host_waits_for_stands_for_the_copies_before_it():
    assert reported(SNAPSHOT, (), "is recorded on the current stream") == [("SYN105", 9)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("done.record()", "done.record(stream)"),
        ("    done.record()", "    torch.cuda.current_stream().wait_stream(stream)\n    done.record()"),
        ("    torch.save", "    stream.synchronize()\n    torch.save"),
        ("    done.synchronize()\n", ""),
    ],
    ids=["on the stream", "joined", "stream awaited", "not awaited"],
)
def test_other_events_after_copies_are_not_reported(old, new):
    assert reported(SNAPSHOT, [(old, new)], "is recorded on the current stream") == []


LAYERS = """
import torch
class Cache:
    def __init__(self, pool, layers):
        self.side, self.pool = torch.cuda.Stream(), pool
        self.ready = [torch.cuda.Event() for _ in range(layers)]

    def copy(self, layer, target, source):
        target[layer].copy_(source[layer], non_blocking=True)

    def transfer(self, layer, target, source):
        with torch.cuda.stream(self.side):
            self.copy(layer, target, source)

    def restore(self, host, layers):
        for layer in range(layers):
            self.transfer(layer, self.pool, host)
            if host:
                self.ready[layer].record(torch.cuda.current_stream())

    def wait(self, layer):
        torch.cuda.current_stream().wait_event(self.ready[layer])
"""


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("            if host:\n    ", "")],
        [("self.copy(layer, target, source)", "target[layer].copy_(source[layer], non_blocking=True)")],
    ],
)
def test_the_block_may_be_in_a_method_that_is_called(changes):
    assert [code for code, _ in reported(LAYERS, changes, "is recorded on the current stream")] == ["SYN105"]


@pytest.mark.parametrize(
    "changes",
    [
        [("record(torch.cuda.current_stream())", "record(self.side)")],
        [("self.ready[layer].record", "self.ready[layers].record")],
        [("self.copy(layer, target, source)", "self.copy(layer, target, source), self.ready[layer].record()")],
        [(", non_blocking=True)", ", non_blocking=False)")],
        [("torch.cuda.current_stream().wait_event", "self.side.wait_event")],
        [("    def restore", "        torch.cuda.current_stream().wait_stream(self.side)\n\n    def restore")],
    ],
    ids=["side stream", "other index", "recorded inside", "blocking", "awaited by the side stream", "joined"],
)
def test_other_records_after_a_call_are_not_reported(changes):
    assert reported(LAYERS, changes, "is recorded on the current stream") == []


def test_the_event_may_be_created_between_the_block_and_its_record():
    source = LOADER.format(**(PARTS | {"record": "ready = torch.cuda.Event(); ready.record()"})).replace("; ", "\n    ")
    file = SourceFile("file.py", source)
    found_lines = [f.location.frame.line for f in misplaced_records.findings(context_of(file))]
    assert found_lines == [9]
