"""A two-step collective: it reads its tensors when it begins and writes its results when it ends."""

import pytest
import torch
import torch.distributed as dist

from syncheck.hb.ids import StreamId
from syncheck.instrument.collectives import plan_of
from syncheck.sim.exchange import CollectiveCall, Exchange
from syncheck.sim.nccl_groups import NcclGroups

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.fixture(autouse=True)
def process_group():
    """Create a process group.

    A test must not keep `boxed()` until the group has ended. Then the boxed object is the last reference and ends the
    group's threads while it holds the GIL, which one of them may need to release its tensors.
    """
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def group():
    return dist.group.WORLD.boxed()


def call_of(func, *args):
    return CollectiveCall(func, plan_of(func), args, {}, StreamId(1), "", is_async=True)


def test_a_pure_output_is_not_read():
    output, given = torch.zeros(2), torch.ones(2)
    gather = call_of(torch.ops.c10d._allgather_base_.default, output, given, group(), False, -1)
    assert [gather.reads(gather.args, {})[0] is given, gather.written[0] is output] == [True, True]
    assert len(gather.reads(gather.args, {})) == 1


def test_a_tensor_reduced_in_place_is_read_and_written():
    x = torch.ones(2)
    broadcast = call_of(torch.ops.c10d.broadcast_.default, [x], group(), 0, 0, True, -1)
    assert broadcast.reads(broadcast.args, {})[0] is broadcast.written[0] is x


def test_inputs_are_read_at_the_beginning_and_outputs_written_at_the_end():
    output, given = torch.zeros(2), torch.ones(2)
    gather = call_of(torch.ops.c10d._allgather_base_.default, output, given, group(), False, -1)
    exchange = Exchange(gather, NcclGroups())
    exchange.begin(gather.args, {})
    given.fill_(5)
    assert output.tolist() == [0, 0]
    exchange.end(gather.args, {})
    assert output.tolist() == [1, 1]
