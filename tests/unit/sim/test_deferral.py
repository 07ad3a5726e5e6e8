"""Operators deferred by a schedule on virtual GPUs."""

import pytest
import torch

from syncheck.instrument.findings import NewFindings
from syncheck.sim.backend import Simulator
from syncheck.sim.deferral import Deferral
from syncheck.sim.null_monitor import NoSites, NullMonitor
from syncheck.witness.schedule import Hold, LaunchId, Schedule

MAIN, SIDE = 1, 2


@pytest.fixture
def simulate():
    """Return a function that runs a program under a schedule on one virtual GPU and returns its result."""

    def run(program, *holds, seed=None):
        held = tuple(Hold(LaunchId(*launch), LaunchId(*until) if until else None) for launch, until in holds)
        schedule = Schedule(0, held, seed)
        simulator = Simulator(
            1, NullMonitor(), NoSites(), lambda _: None, NewFindings(), lambda: None, schedule=schedule
        )
        assert isinstance(simulator.deferral, Deferral)
        with simulator.watching():
            result = program(torch.cuda.Stream())
            simulator.finish()
        return result

    return run


def unordered_read(side):
    x = torch.ones(3, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    return (y + 1).sum().item()


def ordered_read(side):
    x = torch.ones(3, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    return (y + 1).sum().item()


def test_without_a_hold_the_program_order_is_kept(simulate):
    assert simulate(unordered_read) == 9


def test_a_held_write_runs_after_the_read(simulate):
    assert simulate(unordered_read, ((SIDE, 1), (MAIN, 2))) != 9


def test_a_wait_is_respected_regardless_of_holds(simulate):
    assert simulate(ordered_read, ((SIDE, 1), (MAIN, 2))) == 9
    assert simulate(ordered_read, ((SIDE, 1), None), ((MAIN, 1), None)) == 9


def freed_too_early(side, *, records):
    x = torch.ones(1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + 1
    if records:
        x.record_stream(side)
    del x
    z = torch.zeros(1000, device="cuda")
    side.synchronize()
    return y.sum().item() + z.sum().item()


def test_freed_memory_is_reused_while_work_on_it_is_pending(simulate):
    assert simulate(lambda side: freed_too_early(side, records=False)) == 2000
    assert simulate(lambda side: freed_too_early(side, records=False), ((SIDE, 1), None)) == 1000


def test_record_stream_protects_memory(simulate):
    assert simulate(lambda side: freed_too_early(side, records=True), ((SIDE, 1), None)) == 2000


def smaller_memory(side):
    x = torch.ones(1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + 1
    del x
    z = torch.zeros(10, device="cuda")
    side.synchronize()
    return y.sum().item(), z


def test_freed_memory_of_another_size_is_overwritten(simulate):
    total, _ = simulate(smaller_memory, ((SIDE, 1), None))
    assert total != total


def copied_to_host(side):
    x = torch.ones(3, device="cuda")
    host = torch.zeros(3).pin_memory()
    host.copy_(x, non_blocking=True)
    early = host.tolist()
    torch.cuda.synchronize()
    return early, host.tolist()


def test_a_copy_to_pinned_memory_may_complete_late(simulate):
    assert simulate(copied_to_host) == ([1, 1, 1], [1, 1, 1])
    assert simulate(copied_to_host, ((MAIN, 2), None)) == ([0, 0, 0], [1, 1, 1])


def moved_to_host(side):
    host = torch.ones(3, device="cuda").to("cpu", non_blocking=True)
    return host.isnan().all().item()


def test_the_result_of_a_pending_copy_has_no_values_yet(simulate):
    assert not simulate(moved_to_host)
    assert simulate(moved_to_host, ((MAIN, 2), None))


def overwritten_buffer(side):
    host = torch.ones(3).pin_memory()
    x = host.to("cuda", non_blocking=True)
    host.fill_(5)
    return x.sum().item()


def test_a_copy_reads_pinned_memory_when_it_runs(simulate):
    assert simulate(overwritten_buffer) == 3
    assert simulate(overwritten_buffer, ((MAIN, 1), None)) == 15


def pageable_source(side):
    host = torch.ones(3)
    x = host.to("cuda", non_blocking=True)
    host.fill_(5)
    return x.sum().item()


def test_pageable_memory_is_read_before_the_call_returns(simulate):
    assert simulate(pageable_source, ((MAIN, 1), None)) == 3


def random_numbers(side):
    torch.manual_seed(3)
    dropped = torch.nn.functional.dropout(torch.ones(100, device="cuda"))
    with torch.cuda.stream(side):
        drawn = torch.rand(5, device="cuda")
    torch.cuda.synchronize()
    return dropped.tolist(), drawn.tolist()


def test_random_numbers_do_not_depend_on_the_schedule(simulate):
    assert simulate(random_numbers) == simulate(random_numbers, ((MAIN, 1), None), ((SIDE, 1), None))


def train(side):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(3):
        x, y = torch.randn(16, 4).pin_memory(), torch.randint(3, (16,)).pin_memory()
        with torch.cuda.stream(side):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        x.record_stream(torch.cuda.current_stream())
        y.record_stream(torch.cuda.current_stream())
        losses.append(loss.item())
    return losses, sum(p.double().sum().item() for p in model.parameters())


@pytest.mark.parametrize("seed", range(6))
def test_training_gives_the_same_result_under_every_schedule(simulate, seed):
    assert simulate(train, seed=seed) == simulate(train)


def test_an_operator_that_cannot_be_deferred_runs_after_its_stream(simulate):
    def program(side):
        x = torch.tensor([0, 2, 0, 3], device="cuda")
        return x.nonzero().flatten().tolist()

    assert simulate(program, ((MAIN, 1), None)) == [1, 3]


def replayed(side, *, waits):
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    x.fill_(4)
    graph.replay()
    if waits:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        total = y.sum()
    return total.item()


def test_a_graph_is_replayed_in_the_order_of_its_stream(simulate):
    assert simulate(lambda side: replayed(side, waits=True), ((MAIN, 1), None)) == 24
    assert simulate(lambda side: replayed(side, waits=False)) == 24


def replayed_on_two_streams(side):
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.mul_(2)
    graph.replay()
    with torch.cuda.stream(side):
        graph.replay()
        total = x.sum()
    return total.item()


def test_replays_of_a_graph_on_two_streams_are_ordered(simulate):
    assert simulate(replayed_on_two_streams) == 12
    assert simulate(replayed_on_two_streams, ((MAIN, 2), None)) == 12


def test_the_memory_of_a_graph_has_no_values_before_its_replay(simulate):
    total = simulate(lambda side: replayed(side, waits=False), ((MAIN, 3), None))
    assert total != total


def freed_after_its_replay(side):
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    graph.replay()
    del x
    z = torch.zeros(3, device="cuda")
    return y.sum().item() + z.sum().item()


def test_the_inputs_of_a_graph_live_until_its_replay_has_run(simulate):
    assert simulate(freed_after_its_replay, ((MAIN, 2), None)) == 6


def gathered(side, *, waits):
    import torch.distributed as dist

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x, y = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
    work = dist.all_to_all_single(y, x * 2, async_op=True)
    if waits:
        work.wait()
    total = y.sum().item()
    work.wait()
    dist.destroy_process_group()
    return total


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_a_single_rank_collective_can_be_deferred(simulate):
    stream = MAIN + 2  # the collectives' stream; the second stream is the test's own
    assert simulate(lambda side: gathered(side, waits=False)) == 6
    assert simulate(lambda side: gathered(side, waits=False), ((stream, 1), None)) == 0
    assert simulate(lambda side: gathered(side, waits=True), ((stream, 1), None)) == 6


def test_a_resize_keeps_what_pending_work_has_yet_to_write(simulate):
    def program(resize):
        def run(side):
            x = torch.ones(4, device="cuda")
            x.add_(1)
            resize(x)
            return x.tolist()

        return run

    for resize in (lambda x: x.resize_(2), lambda x: x.resize_(4, 1), lambda x: x.untyped_storage().resize_(16)):
        assert simulate(program(resize), ((MAIN, 2), None))[0] in (2, [2])
    assert simulate(program(lambda x: x.resize_(8)), ((MAIN, 2), None))[:4] == [2, 2, 2, 2]
    assert simulate(program(lambda x: x.untyped_storage().resize_(32)), ((MAIN, 2), None)) == [2, 2, 2, 2]
