"""Batches of messages whose operations use the same memory."""

import pytest
import torch
import torch.distributed as dist

from syncheck.instrument.c10d import c10d
from syncheck.instrument.message_batches import hook_batches
from syncheck.instrument.patching import Patches

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


class Recorder:
    def __init__(self):
        self.calls = []

    def begin(self, tensor, *, is_write):
        self.calls.append((tensor.storage_offset(), is_write))

    def end(self):
        self.calls.append("end")


@pytest.fixture
def batch(monkeypatch):
    """Return a function that starts a batch and returns what is reported."""
    recorder, patches = Recorder(), Patches()
    started = []
    monkeypatch.setattr(c10d, "batch_isend_irecv", started.append)
    monkeypatch.setattr(dist, "batch_isend_irecv", c10d.batch_isend_irecv)
    hook_batches(patches, recorder)

    def start(operations):
        dist.batch_isend_irecv(operations)
        assert started[-1] is operations
        return recorder.calls

    yield start
    patches.undo()


class Operation(c10d.P2POp if dist.is_available() else object):
    """A message, without a process group."""

    def __new__(cls, *_):
        return object.__new__(cls)

    def __init__(self, op, tensor):
        self.op, self.tensor = op, tensor


def send(tensor):
    return Operation(dist.isend, tensor)


def receive(tensor):
    return Operation(dist.irecv, tensor)


@pytest.mark.parametrize("order", [1, -1])
def test_a_batch_that_sends_what_it_receives_is_reported(batch, order):
    x = torch.zeros(4)
    assert batch([receive(x), send(x)][::order]) == [(0, False), "end"]


def test_two_receives_into_the_same_memory_are_reported_once(batch):
    x = torch.zeros(4)
    assert batch([receive(x[:3]), receive(x[2:])]) == [(2, True), "end"]


X = torch.zeros(4)


@pytest.mark.parametrize(
    "operations",
    [
        [receive(X[:2]), send(X[2:])],
        [send(X), send(X)],
        [receive(X), send(torch.zeros(4))],
        [receive(X), send(X[:0])],
        [receive(X)],
        [],  # torch raises an error
        ["not a message"],
        None,
    ],
    ids=["other parts", "two sends", "other memory", "empty", "one", "none", "text", "no list"],
)
def test_other_batches_are_not(batch, operations):
    assert batch(operations) == []


def test_the_current_stream_waits_even_if_the_batch_fails(monkeypatch):
    def fail(_):
        raise RuntimeError

    recorder, patches, x = Recorder(), Patches(), torch.zeros(1)
    monkeypatch.setattr(c10d, "batch_isend_irecv", fail)
    hook_batches(patches, recorder)
    with pytest.raises(RuntimeError):
        c10d.batch_isend_irecv([receive(x), send(x)])
    patches.undo()
    assert recorder.calls == [(0, False), "end"]
