"""Waits for a stream right before the block that they should follow, and `record_stream` with that stream."""

import pytest

from syncheck.lint.patterns import misplaced_waits
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of


def found(body):
    source = "import torch\ndef f(host, device, main, side, other):\n"
    source += "".join(f"    {line}\n" for line in body.split("\n"))
    if not misplaced_waits.can_matter(source):
        return []
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in misplaced_waits.findings(context_of(file))]


BLOCK = "with torch.cuda.stream(side):\n    x = host.to(device, non_blocking=True)\n"
RECORD = "x.record_stream(main)"


def test_a_wait_before_the_copies_that_it_should_cover_is_reported():
    assert found(f"main.wait_stream(side)\n{BLOCK}{RECORD}") == [("SYN105", 3)]


@pytest.mark.parametrize(
    "body",
    [
        f"{BLOCK}main.wait_stream(side)\n{RECORD}",
        f"main.wait_stream(side)\n{BLOCK}main.wait_stream(side)\n{RECORD}",
        f"main.wait_stream(other)\n{BLOCK}{RECORD}",
        f"main.wait_stream(side)\n{BLOCK}x.record_stream(other)",
        f"main.wait_stream(side)\n{BLOCK}    done.record()\n{RECORD}",
        f"main.wait_stream(side)\n{BLOCK.replace(', non_blocking=True', '')}{RECORD}",
    ],
)
def test_a_wait_for_earlier_work_is_not_reported(body):
    assert found(body) == []


@pytest.mark.parametrize("record", ["x.record_stream(side)", "for value in x.values():\n    value.record_stream(side)"])
def test_recording_the_stream_that_was_waited_for_is_reported(record):
    ((code, _),) = found(f"{BLOCK}main.wait_stream(side)\n{record}")
    assert code == "SYN202"


def test_memory_of_the_stream_that_waits_is_recorded_on_the_other_one():
    assert found(f"{BLOCK}side.wait_stream(main)\n{RECORD}") == []


@pytest.mark.parametrize(
    "record", ["x.record_stream(main)", "x.record_stream(side)\nx.record_stream(main)", "x.record_stream(other)"]
)
def test_recording_another_stream_is_not_reported(record):
    assert found(f"{BLOCK}main.wait_stream(side)\n{record}") == []
