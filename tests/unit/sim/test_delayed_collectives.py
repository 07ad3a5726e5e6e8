"""Collectives of a single rank under a schedule; `tests/ranks/test_witness.py` covers several ranks."""

import pytest
import torch
import torch.distributed as dist

from syncheck.sim.delayed_collectives import DelayedCollectives
from syncheck.witness.schedule import Hold, LaunchId

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
]
MAIN, NCCL = 1, 2


@pytest.fixture
def job(scheduled):
    """Return a function that creates a group of one rank under a schedule."""

    def make(*holds):
        simulator = scheduled(*holds)
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        return simulator

    yield make
    if dist.is_initialized():
        dist.destroy_process_group()


def held(stream, number=1):
    return Hold(LaunchId(stream, number))


def gather(given, group=None):
    output = torch.zeros(2, device="cuda")
    return output, dist.all_gather_into_tensor(output, given, group=group, async_op=True)


def test_a_collective_that_is_not_held_runs_in_the_call(job):
    job()
    given = torch.ones(2, device="cuda")
    output, work = gather(given)
    given.fill_(5)
    work.wait()
    assert output.tolist() == [1, 1]


def test_a_held_collective_reads_its_inputs_when_it_runs(job):
    job(held(NCCL))
    given = torch.ones(2, device="cuda")
    output, work = gather(given)
    given.fill_(5)
    early = output + 0
    work.wait()
    assert (early.tolist(), output.tolist()) == ([0, 0], [5, 5])


def test_the_handle_of_a_held_collective_is_complete_and_has_its_results(job):
    job(held(NCCL))
    output, work = gather(torch.ones(2, device="cuda"))
    (value,) = work.get_future().value()
    assert value.untyped_storage().data_ptr() == output.untyped_storage().data_ptr()
    work.wait()
    assert value.tolist() == [1, 1]


def test_collectives_begin_in_program_order(job):
    simulator = job(held(NCCL))
    group = dist.new_group([0])
    first, second = torch.ones(2, device="cuda"), torch.ones(2, device="cuda")
    output, work = gather(first)
    other, other_work = gather(second, group)
    second.fill_(5)  # the second one waits until the first has begun
    first.fill_(6)
    other_work.wait()
    assert other.tolist() == [5, 5]  # the host waits for it, so that the first one has begun, too
    first.fill_(7)
    early = output + 0
    work.wait()
    assert (early.tolist(), output.tolist()) == ([0, 0], [6, 6])
    assert simulator.deferral.observations.record.forced == [
        "waiting for a later collective requires this one to begin"
    ]


WAITS = {
    "a collective of the host": lambda _: dist.all_reduce(torch.ones(2)),
    "a barrier": lambda _: dist.barrier(),
    "a store": lambda store: store.get("key"),
    "a new group": lambda _: dist.new_group([0]),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
@pytest.mark.filterwarnings("ignore:barrier:UserWarning", "ignore:No device id:UserWarning")  # torch 2.8: the second
def test_pending_collectives_begin_before_the_host_waits_for_other_ranks(job, wait):
    job(held(NCCL))
    store = dist.HashStore()
    store.set("key", "value")
    given = torch.ones(2, device="cuda")
    output, work = gather(given)
    wait(store)
    given.fill_(5)
    work.wait()
    assert output.tolist() == [1, 1]


def test_all_queued_collectives_begin(job):
    job(held(NCCL))
    store = dist.HashStore()
    store.set("key", "value")
    given = [torch.ones(2, device="cuda") for _ in range(3)]
    started = [gather(each) for each in given]
    store.get("key")
    for each in given:
        each.fill_(5)
    for _, work in started:
        work.wait()
    assert [output.tolist() for output, _ in started] == [[1, 1]] * 3


def test_destroying_the_groups_completes_pending_collectives(job):
    simulator = job(held(NCCL))
    output, work = gather(torch.ones(2, device="cuda"))
    del work
    dist.destroy_process_group()
    assert simulator.deferral.queues.is_idle()
    assert output.tolist() == [1, 1]


def test_waiting_for_an_ordered_collective_does_not_run_it(job):
    simulator = job(held(MAIN))
    assert isinstance(simulator.distributed._delayed, DelayedCollectives)
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x)
    assert not simulator.deferral.queues.is_idle()
    assert x.tolist() == [1, 1]
