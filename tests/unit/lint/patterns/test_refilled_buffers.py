"""Buffers that a loop fills again while a collective still uses them."""

import textwrap

import pytest

from syncheck.lint.patterns import refilled_buffers
from tests.unit.lint.checking import found_by

HEAD = "import torch.distributed as dist\ndef f(batches, buffer, bucket, group):\n    handles = []\n"
FIRST = HEAD.count("\n") + 1


def found(body):
    return [(code, line - FIRST) for code, line in found_by(refilled_buffers, HEAD + textwrap.indent(body, "    "))]


SEND = "handles.append(dist.broadcast(bucket.flat[:n], src=0, async_op=True))"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (f"for n in batches:\n    bucket.flat[:n].view(-1).copy_(n)\n    {SEND}\nfor h in handles:\n    h.wait()", 1),
        (f"for b in batches:\n    for n in b:\n        bucket.flat[n:].copy_(n)\n    {SEND}", 2),
        ("while group:\n    buffer[:4] = next(batches)\n    work = dist.all_reduce(buffer, async_op=True)", 1),
        ("for b in batches:\n    torch.mm(b, b, out=buffer)\n    handles.append(dist.isend(buffer, 1))", 1),
    ],
)
def test_a_write_before_the_collective_of_the_same_loop_is_reported(body, line):
    assert found(body) == [("SYN602", line)]


@pytest.mark.parametrize(
    "body",
    [
        f"for n in batches:\n    bucket.flat[:n].copy_(n)\n    {SEND}\n    handles[-1].wait()",
        f"for n in batches:\n    if handles:\n        handles.pop().wait()\n    bucket.flat[:n].copy_(n)\n    {SEND}",
        f"for n in batches:\n    while not h.is_completed():\n        work()\n    bucket.flat.copy_(n)\n    {SEND}",
        f"for n in batches:\n    bucket = make(n)\n    bucket.flat[:n].copy_(n)\n    {SEND}",
        f"for bucket in batches:\n    bucket.flat.copy_(1)\n    {SEND}",
        f"for n in batches:\n    drain(handles)\n    bucket.flat[:n].copy_(n)\n    {SEND}",
        f"for n in batches:\n    {SEND}\nbucket.flat.zero_()",
        f"for n in batches:\n    bucket.other.copy_(n)\n    {SEND}",
        "for b in batches:\n    buffer.copy_(b)\n    dist.all_reduce(buffer)",
        "for b in batches:\n    buffer.copy_(b)\n    dist.all_reduce(buffer, async_op=True).wait()",
        f"for n in batches:\n    with _coalescing_manager(group):\n        bucket.flat.copy_(n)\n        {SEND}",
        "for i in batches:\n    buffer[i].fill_(i)\n    handles.append(dist.all_reduce(buffer[i], async_op=True))",
        "for n in batches:\n    buffer[n : n + 4].copy_(n)\n    handles.append(dist.isend(buffer[n : n + 4], 1))",
        "for n in batches:\n    if n == 0:\n        buffer.copy_(n)\n        handles.append(dist.isend(buffer, 1))",
        "for b in batches:\n    buffer = rings[b]\n    buffer.copy_(b)\n    handles.append(dist.isend(buffer, 1))",
    ],
)
def test_waits_and_other_buffers_are_not_reported(body):
    assert found(body) == []
