"""Kept buffers that are written before the wait for the collective that still sends them."""

import pytest

from syncheck.lint.patterns import late_handle_waits
from tests.unit.lint.program import reported

SOURCE = """
import torch
import torch.distributed as dist


class Channel:
    def __init__(self, shape, depth, peer):
        self.buffers = [torch.empty(shape, device="cuda") for _ in range(depth)]
        self.works = [None] * depth
        self.peer = peer

    def settle(self, slot):
        if self.works[slot] is not None:
            self.works[slot].wait()

    def send(self, activation, step):
        slot = step % len(self.buffers)
        buffer = self.buffers[slot]
        buffer.copy_(activation)
        work = self.works[slot]
        if work is not None:
            work.wait()
        self.works[slot] = dist.isend(buffer, self.peer)
"""
WRITE = "        buffer.copy_(activation)\n"
WAIT = "        work = self.works[slot]\n        if work is not None:\n            work.wait()\n"
SEND = "dist.isend(buffer, self.peer)"
ONE_BUFFER = [("self.works[slot] = dist", "self.work = dist"), ("buffer = self.buffers[slot]", "buffer = self.buffer")]
LINE = 19


def found(*changes):
    return reported(SOURCE, changes, "may still be using it")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(WRITE, "        buffer[:4] = activation\n")],
        [(WAIT, "        self.settle(slot)\n")],
        [(SEND, "dist.isend(tensor=buffer, dst=self.peer)")],
        [(SEND, "dist.all_reduce(buffer, async_op=True)")],
        [*ONE_BUFFER, (WAIT, "        self.work.wait()\n")],
    ],
)
def test_a_write_before_the_wait_for_the_last_send_is_reported(changes):
    assert found(*changes) == [("SYN602", LINE)]


@pytest.mark.parametrize(
    "changes",
    [
        [(WRITE + WAIT, WAIT + WRITE)],
        [(WRITE + WAIT, "        self.settle(slot)\n" + WRITE)],
        [("buffer = self.buffers[slot]", "buffer = torch.empty_like(activation)")],
        [(WRITE, "        activation.mul_(2)\n")],
        [(SEND, "dist.isend(activation, self.peer)")],
        [(SEND, "dist.all_reduce(buffer); self.last = dist.isend(activation, 1)")],
        [("self.works[slot] = dist", "self.work = dist"), (WAIT, "        self.work.wait()\n")],
        [(WRITE, "        for work in self.works: work.wait()\n" + WRITE)],
        [(WRITE, "        torch.cuda.synchronize()\n" + WRITE)],
        [(WRITE, "        buffer.requires_grad_(False)\n")],
    ],
    ids=[
        "wait first",
        "wait in a method first",
        "new buffer",
        "other tensor",
        "other input",
        "synchronous",
        "two buffers, one handle",
        "waits in a loop",
        "host waits",
        "no write",
    ],
)
def test_other_orders_are_not_reported(changes):
    assert found(*changes) == []


def test_only_files_with_asynchronous_collectives_are_searched():
    assert late_handle_waits.can_matter(SOURCE)
    assert not late_handle_waits.can_matter(SOURCE.replace("isend", "send"))
