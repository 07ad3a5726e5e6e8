"""Waits of a stream for the current stream of another device than its own."""

import pytest

from syncheck.lint.patterns import wrong_device_waits
from tests.unit.lint.program import reported

SOURCE = """
import torch


class Link:
    def __init__(self, src, dst):
        self.src = src
        self.dst = dst
        self.stream = torch.cuda.Stream(self.src)

    def send(self, x):
        with torch.cuda.device(self.dst):
            out = torch.empty_like(x, device=self.dst)
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                out.copy_(x, non_blocking=True)
                copied = self.stream.record_event()
            torch.cuda.current_stream(self.dst).wait_event(copied)
        return out
"""
COPY = "            with torch.cuda.stream(self.stream):\n"
LINE = 14


def found(*changes):
    return reported(SOURCE, changes, "waits only for the current stream")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("Stream(self.src)", "Stream(self.src) if self.src else None")],
        [("Stream(self.src)", "Stream(src)")],
    ],
)
def test_a_wait_for_the_stream_of_another_device_is_reported(changes):
    assert found(*changes) == [("SYN105", LINE)]


@pytest.mark.parametrize(
    "changes",
    [
        [("wait_stream(torch.cuda.current_stream())", "wait_stream(torch.cuda.current_stream(self.src))")],
        [("torch.cuda.device(self.dst)", "torch.cuda.device(self.src)")],
        [("Stream(self.src)", "Stream(self.dst)")],
        [("Stream(self.src)", "Stream()")],
        [(COPY, "            self.stream.wait_event(x.ready)\n" + COPY)],
        [("        self.src = src\n", "")],
        [("            out = torch.empty_like(x, device=self.dst)\n", "            out = self.buffer\n")],
    ],
    ids=[
        "named device",
        "same device",
        "stream of the other",
        "unknown device",
        "another wait",
        "unknown attribute",
        "kept memory",
    ],
)
def test_other_waits_are_not_reported(changes):
    assert found(*changes) == []


LOCAL = """
import torch


def run(encoder, decoder, batches, src, dst):
    bridge = torch.cuda.Stream(src)
    for x in batches:
        encoded = encoder(x)
        bridge.wait_stream(torch.cuda.current_stream(dst))
        with torch.cuda.stream(bridge):
            memory = encoded.to(dst, non_blocking=True)
        torch.cuda.current_stream(dst).wait_stream(bridge)
        decoder(memory)
"""


@pytest.mark.parametrize(
    "changes", [[], [("current_stream(dst))\n        with", "current_stream(device=dst))\n        with")]]
)
def test_a_stream_in_a_variable_counts_too(changes):
    assert reported(LOCAL, changes, "waits only for the current stream of `dst`") == [("SYN105", 9)]


@pytest.mark.parametrize(
    "changes",
    [
        [("current_stream(dst))\n        with", "current_stream(src))\n        with")],
        [("Stream(src)", "Stream(dst)")],
        [("        with", "        bridge.wait_stream(torch.cuda.current_stream(src))\n        with")],
        [("src, dst)", "dst)"), ("Stream(src)", "Stream(other)")],
        [("        encoded = encoder(x)\n", "        with torch.cuda.stream(bridge): encoded = encoder(x)\n")],
    ],
    ids=["own device", "other stream", "both devices", "unknown device", "computed on the stream"],
)
def test_a_wait_for_the_own_device_is_enough(changes):
    assert reported(LOCAL, changes, "waits only for the current stream") == []


def test_only_files_with_waits_for_streams_are_searched():
    assert wrong_device_waits.can_matter(SOURCE)
    assert not wrong_device_waits.can_matter(SOURCE.replace("wait_stream(", "wait("))
