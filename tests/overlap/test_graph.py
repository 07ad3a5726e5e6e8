"""The cost of an edge, what needs it, and possible overlap, in small programs without torch."""

import pytest

from syncheck.overlap.model import EdgeKind
from syncheck.overlap.schedule import Change, shortest, simulate
from tests.overlap.programs import HOST, Program

US = 1000


@pytest.fixture
def program():
    return Program()


def cost_of(analysis, site):
    return next(cost for cost in analysis.costs if cost.site == site)


def test_operations_on_one_stream_run_one_after_another(program):
    main = program.stream()
    program.run(main, 100)
    program.run(main, 100)
    analysis = program.analysis()
    assert analysis.makespan == 5 * US + 200 * US
    assert analysis.streams[0].work == 200 * US


def test_independent_operations_on_two_streams_overlap(program):
    first, second = program.stream(), program.stream()
    program.run(first, 100)
    program.run(second, 100)
    analysis = program.analysis()
    assert analysis.makespan == 110 * US
    (pair,) = analysis.pairs
    assert (pair.free, pair.overlapped) == (100 * US, 95 * US)


def test_an_edge_that_nothing_needs_is_removable(program):
    main, side = program.stream(), program.stream()
    program.run(main, 100)
    site = program.wait(side, main)
    program.run(side, 100)
    analysis = program.analysis()
    cost = cost_of(analysis, site)
    assert cost.need is None
    assert cost.is_removable
    assert cost.stalled == 95 * US
    assert (analysis.makespan, cost.makespan) == (205 * US, 110 * US)


def test_an_edge_is_needed_because_of_a_tensor_used_on_both_sides(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    made = program.run(main, 100, writes=[x])
    site = program.wait(side, main)
    used = program.run(side, 100, reads=[x])
    analysis = program.analysis()
    need = cost_of(analysis, site).need
    assert (need.before, need.op, need.allocation, need.why) == (made, used, x, "reads")
    assert cost_of(analysis, site).makespan == analysis.makespan


def test_a_needed_edge_may_be_moved_later(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    program.run(main, 100, writes=[x])
    site = program.wait(side, main)
    program.run(side, 100)
    program.run(side, 10, reads=[x])
    analysis = program.analysis()
    cost = cost_of(analysis, site)
    assert cost.need.op == 2
    assert (analysis.makespan, cost.makespan) == (215 * US, 120 * US)


def test_only_the_first_of_two_equal_edges_is_needed(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    program.run(main, 100, writes=[x])
    first, second = program.wait(side, main), program.wait(side, main)
    program.run(side, 100, reads=[x])
    edges = {edge.site: ident for ident, edge in enumerate(program.graph.edges)}
    assert edges[first] in program.graph.needs
    assert edges[second] not in program.graph.needs


def test_every_edge_of_a_chain_of_streams_is_needed(program):
    a, b, c = program.stream(), program.stream(), program.stream()
    x = program.tensor(a)
    program.run(a, 100, writes=[x])
    program.wait(b, a)
    program.run(b, 10)
    program.wait(c, b)
    program.run(c, 10, reads=[x])
    assert set(program.graph.needs) == {0, 1}


def test_reused_memory_needs_the_join(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    program.run(main, 10, writes=[x])
    program.wait(side, main)
    program.run(side, 10, reads=[x])
    program.wait(main, side)
    program.builder.free(x, 0)
    assert program.graph.needs[1].why == "memory"


def test_memory_freed_before_the_join_needs_it_too(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    program.run(main, 10, writes=[x])
    program.wait(side, main)
    program.run(side, 10, reads=[x])
    program.builder.free(x, 0)
    program.wait(main, side)
    assert program.graph.needs[1].why == "memory"


def test_memory_with_record_stream_needs_no_join(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    program.run(main, 10, writes=[x])
    program.wait(side, main)
    program.run(side, 10, reads=[x])
    program.builder.record_stream(x, 0, side, 0)
    program.wait(main, side)
    program.builder.free(x, 0)
    assert 1 not in program.graph.needs


def test_the_first_use_of_memory_needs_the_order_after_its_home_stream(program):
    main, side = program.stream(), program.stream()
    program.run(main, 10)
    fresh = program.tensor(main)
    program.wait(side, main)
    program.run(side, 10, writes=[fresh])
    assert program.graph.needs[0].why == "memory"


def test_a_needless_host_wait_costs_the_time_of_later_work(program):
    main = program.stream()
    side = program.stream()
    program.run(main, 100)
    site = program.synchronize()
    program.run(side, 100)
    analysis = program.analysis()
    cost = cost_of(analysis, site)
    assert (cost.kind, cost.waiter, cost.need) == (EdgeKind.HOST_DEVICE, HOST, None)
    assert (analysis.makespan, cost.makespan) == (210 * US, 110 * US)


def test_a_host_wait_is_needed_by_a_clock_read_after_it(program):
    main = program.stream()
    program.run(main, 100)
    program.synchronize()
    program.builder.clock(1, 77)
    assert program.graph.needs[0].why == "clock"


def test_a_host_wait_is_needed_by_work_that_only_it_orders(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    program.run(main, 100, writes=[x])
    program.synchronize()
    used = program.run(side, 100, reads=[x])
    assert program.graph.needs[0].op == used


def test_needless_stream_order_has_a_cost(program):
    main = program.stream()
    x = program.tensor(main)
    program.run(main, 100, writes=[x])
    program.run(main, 100)
    (order,) = [cost for cost in program.analysis().costs if cost.kind is None]
    assert order.makespan == 110 * US


def test_no_order_is_shorter_than_the_longest_chain_of_results(program):
    main = program.stream()
    x, y = program.tensor(main), program.tensor(main)
    program.run(main, 100, writes=[x])
    program.run(main, 30, writes=[y])
    program.run(main, 50, reads=[x, y], writes=[x])
    assert shortest(program.graph) == 150 * US


def test_a_pair_that_cannot_overlap_names_the_edges_that_prevent_it(program):
    main, side = program.stream(), program.stream()
    program.run(main, 100)
    fork = program.wait(side, main)
    program.run(side, 100)
    (pair,) = program.analysis().pairs
    assert pair.free == 0
    assert [program.graph.edges[edge].site for edge in pair.blocking_edges] == [fork]


def test_the_edges_of_a_typical_iteration_are_named_and_not_those_of_what_precedes_the_loop(program):
    main, side = program.stream(), program.stream()
    program.run(main, 1)
    program.synchronize()
    iterations = []
    for _ in range(5):
        program.run(side, 100)
        join = program.wait(main, side)
        program.run(main, 10)
        iterations.append({join, program.synchronize()})
    (pair,) = program.analysis().pairs
    assert pair.free == 0
    sites = {program.graph.edges[edge].site for edge in pair.blocking_edges}
    assert sites <= iterations[1] | iterations[2]


def peer_copy(program, source_stream, target_stream, x, y):
    """Copy between two GPUs as torch does: the streams wait for each other before and after the copy."""
    program.torch_waits(source_stream, target_stream)
    program.run(source_stream, 100, reads=[x], writes=[y], operator="aten::copy_")
    program.torch_waits(target_stream, source_stream)


@pytest.mark.parametrize("is_sender_aside", [True, False])
@pytest.mark.parametrize("is_receiver_aside", [True, False])
def test_a_copy_between_gpus_overlaps_only_with_side_streams_on_both(program, is_sender_aside, is_receiver_aside):
    default_0, default_1 = program.stream(0, is_default=True), program.stream(1, is_default=True)
    sender, receiver = program.stream(0), program.stream(1)
    x, y, b = program.tensor(default_0), program.tensor(default_1), program.tensor(default_1)
    peer_copy(program, sender if is_sender_aside else default_0, receiver if is_receiver_aside else default_1, x, y)
    program.run(default_1, 100, writes=[b])
    overlaps = simulate(program.graph).makespan < 150 * US
    assert overlaps == (is_sender_aside and is_receiver_aside)


def test_an_event_recorded_early_lets_later_work_overlap(program):
    main, side = program.stream(), program.stream()
    program.run(main, 10)
    done = program.event(main)
    program.run(main, 100)
    program.wait_event(side, done)
    program.run(side, 100)
    assert program.analysis().makespan == 115 * US


def test_freeing_one_stream_from_its_order_keeps_waits_for_it(program):
    main, side = program.stream(), program.stream()
    program.run(main, 100)
    program.run(main, 10)
    program.wait(side, main)
    program.run(side, 10)
    assert simulate(program.graph, Change(free=[main])).makespan == 115 * US


def test_captured_work_runs_only_when_replayed(program):
    main = program.stream()
    x = program.tensor(main)
    program.builder.capture_begin(1, main, 0)
    program.builder.launch(main, "aten::mm", ((x, 0, True),), 0)
    program.builder.capture_end(1)
    assert program.graph.ops == []
    program.builder.replay(1, main, 0)
    program.builder.replay(1, main, 0)
    assert [op.operator for op in program.graph.ops] == ["graph replay"] * 2
    assert program.graph.replays == {0: 1, 1: 1}


def test_many_parts_of_one_allocation_stay_in_order(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    for start in range(100):
        program.builder.view(start * 8, (1,), (1,), 4, "float32")
        program.builder.launch(main, "aten::fill_", ((x, start + 1, True),), 0)
    program.wait(side, main)
    program.builder.launch(side, "aten::sum", ((x, 3, False),), 0)
    assert program.graph.needs[0].allocation == x
