"""Messages that a rank receives under a schedule from a simulated peer."""

from functools import partial

import pytest
import torch
import torch.distributed as dist

from syncheck.hb.ids import EventId
from syncheck.instrument.collectives import plan_of
from syncheck.sim import late_receipts
from syncheck.sim.exchange import Asked
from syncheck.sim.late_receipts import LateReceipts
from syncheck.witness.schedule import Hold, LaunchId

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")
MAIN, SIDE, EVENT = 1, 2, EventId(5)


class Message:
    """A message of ones."""

    def __init__(self, asked, groups):
        self.asked = asked

    def begin(self, args, kwargs):
        pass

    def end(self, args, kwargs):
        args[0][0].fill_(1)


@pytest.fixture
def receiving(scheduled, monkeypatch):
    """Return a function that requests a message; it returns the receiver, the memory, and the begun collectives."""
    monkeypatch.setattr(late_receipts, "Exchange", Message)

    def start(*holds):
        simulator, begun = scheduled(*holds), []
        receipts = LateReceipts(simulator.runtime, simulator.deferral, None, lambda: partial(begun.append))
        simulator.distributed._late.receipts = receipts  # operators pass through there
        x = torch.zeros(2, device="cuda")
        stream = simulator.runtime.gpus.current_stream(0) + 1
        torch.cuda.Stream()
        func = torch.ops.c10d.recv_.default
        asked = Asked(func, plan_of(func), ([x], None, 0, 0), {}, stream, "", is_async=True)
        receipts.start(asked, simulator.runtime.memory.idents([x]), handle=7)
        simulator.runtime.gpus.monitor.launch(stream, "c10d::recv_", (), 0)
        receipts.recorded(7, EVENT)
        return receipts, x, begun

    return start


def test_a_message_arrives_when_its_memory_is_used(receiving):
    receipts, x, _ = receiving()
    assert receipts.is_pending
    assert torch.ones(2, device="cuda").tolist() == [1, 1]
    assert receipts.is_pending
    assert x.tolist() == [1, 1]
    assert not receipts.is_pending


def test_a_message_arrives_when_it_is_waited_for(receiving):
    receipts, _, _ = receiving()
    receipts.waited(EventId(6))
    assert receipts.is_pending
    receipts.waited(EVENT)
    assert not receipts.is_pending


def test_a_held_message_arrives_after_the_use_of_its_memory(receiving):
    receipts, x, _ = receiving(Hold(LaunchId(SIDE, 1)))
    assert x.tolist() == [0, 0]
    receipts.waited(EVENT)
    assert receipts.is_pending
    torch.cuda.synchronize()
    assert x.tolist() == [1, 1]


def test_earlier_sends_begin_before_the_host_waits_for_a_message(receiving):
    receipts, _, begun = receiving()
    receipts.waited(EVENT)
    assert len(begun) == 1


def test_a_collective_runs_after_a_message_that_it_uses(receiving, scheduled):
    receipts, x, _ = receiving(Hold(LaunchId(SIDE, 1)))
    queues = receipts._deferral.queues
    receipts.follow(SIDE, receipts._runtime.memory.idents([x]))
    queues.finish(queues.mark(SIDE))
    assert x.tolist() == [1, 1]
