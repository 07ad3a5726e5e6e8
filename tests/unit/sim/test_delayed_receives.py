"""Messages that a rank receives under a schedule from a simulated peer."""

from functools import partial

import pytest
import torch
import torch.distributed as dist

from syncheck.hb.ids import EventId
from syncheck.instrument.collectives import plan_of
from syncheck.sim import delayed_receives
from syncheck.sim.delayed_receives import DelayedReceives
from syncheck.sim.exchange import CollectiveCall
from syncheck.witness.schedule import Hold, LaunchId

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")
MAIN, SIDE, EVENT = 1, 2, EventId(5)


class Message:
    """A message of ones."""

    def __init__(self, call, groups):
        self.call = call

    def begin(self, args, kwargs):
        pass

    def end(self, args, kwargs):
        args[0][0].fill_(1)


@pytest.fixture
def receiving(scheduled, monkeypatch):
    """Return a function that requests a message; it returns the receiver, the memory, and the begun collectives."""
    monkeypatch.setattr(delayed_receives, "Exchange", Message)

    def start(*holds):
        simulator, begun = scheduled(*holds), []
        receives = DelayedReceives(simulator.runtime, simulator.deferral, None, lambda: partial(begun.append))
        simulator.distributed._delayed.receives = receives  # operators come by there
        x = torch.zeros(2, device="cuda")
        stream = simulator.runtime.gpus.current_stream(0) + 1
        torch.cuda.Stream()
        func = torch.ops.c10d.recv_.default
        call = CollectiveCall(func, plan_of(func), ([x], None, 0, 0), {}, stream, "", is_async=True)
        receives.start(call, simulator.runtime.memory.idents([x]), handle=7)
        simulator.runtime.gpus.monitor.launch(stream, "c10d::recv_", (), 0)
        receives.attach_event(7, EVENT)
        return receives, x, begun

    return start


def test_a_message_arrives_when_its_memory_is_used(receiving):
    receives, x, _ = receiving()
    assert receives.is_pending
    assert torch.ones(2, device="cuda").tolist() == [1, 1]
    assert receives.is_pending
    assert x.tolist() == [1, 1]
    assert not receives.is_pending


def test_a_message_arrives_when_it_is_waited_for(receiving):
    receives, _, _ = receiving()
    receives.event_awaited(EventId(6))
    assert receives.is_pending
    receives.event_awaited(EVENT)
    assert not receives.is_pending


def test_a_held_message_arrives_after_the_use_of_its_memory(receiving):
    receives, x, _ = receiving(Hold(LaunchId(SIDE, 1)))
    assert x.tolist() == [0, 0]
    receives.event_awaited(EVENT)
    assert receives.is_pending
    torch.cuda.synchronize()
    assert x.tolist() == [1, 1]


def test_earlier_sends_begin_before_the_host_waits_for_a_message(receiving):
    receives, _, begun = receiving()
    receives.event_awaited(EVENT)
    assert len(begun) == 1


def test_a_collective_runs_after_a_message_that_it_uses(receiving, scheduled):
    receives, x, _ = receiving(Hold(LaunchId(SIDE, 1)))
    queues = receives._deferral.queues
    receives.follow(SIDE, receives._runtime.memory.idents([x]))
    queues.finish(queues.mark(SIDE))
    assert x.tolist() == [1, 1]
