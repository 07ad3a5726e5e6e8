"""The critical path in order: work and the edges in between."""

import pytest

from syncheck.overlap.critical_path import LinkKind, links
from tests.overlap.programs import Program

US = 1000
WORK, WAIT, ORDER, LAUNCH, LEFT_OUT = LinkKind.WORK, LinkKind.WAIT, LinkKind.ORDER, LinkKind.LAUNCH, LinkKind.LEFT_OUT


@pytest.fixture
def program():
    return Program()


def found(program, most=100):
    schedule = program.analysis().schedule
    return links(program.graph, schedule, schedule.critical_nodes(), most)


def kinds(program):
    return [(link.kind, link.nanoseconds) for link in found(program)]


def test_an_edge_links_the_work_of_two_streams(program):
    main, side = program.stream(), program.stream()
    x = program.tensor(main)
    made = program.run(main, 100, writes=[x])
    site = program.wait(side, main)
    used = program.run(side, 70, reads=[x])
    launch, first, wait, second = found(program)
    assert (launch.kind, launch.nanoseconds) == (LAUNCH, 5 * US)
    assert (first.kind, first.stream, first.first, first.nanoseconds) == (WORK, main, made, 100 * US)
    assert (wait.kind, wait.nanoseconds, program.graph.edges[wait.edge].site) == (WAIT, 95 * US, site)
    assert program.graph.needs[wait.edge].op == used
    assert (second.kind, second.stream, second.nanoseconds) == (WORK, side, 70 * US)


def test_dependent_operations_form_one_stretch(program):
    main = program.stream()
    x = program.tensor(main)
    program.run(main, 100, writes=[x])
    longest = program.run(main, 200, reads=[x], writes=[x])
    program.run(main, 50, reads=[x])
    _, work = found(program)
    assert (work.kind, work.count, work.longest, work.nanoseconds) == (WORK, 3, longest, 350 * US)


def test_needless_stream_order_is_named(program):
    main = program.stream()
    x, y = program.tensor(main), program.tensor(main)
    first = program.run(main, 100, writes=[x])
    second = program.run(main, 100, writes=[y])
    order = found(program)[2]
    assert (order.kind, order.stream, order.first, order.last, order.nanoseconds) == (
        ORDER,
        main,
        first,
        second,
        100 * US,
    )


def test_stream_order_that_costs_little_does_not_split_a_stretch(program):
    main = program.stream()
    x, y = program.tensor(main), program.tensor(main)
    program.run(main, 20, writes=[x])
    program.run(main, 980, writes=[y])
    assert [link.kind for link in found(program)] == [LAUNCH, WORK]


def test_host_waits_and_launches_are_on_the_path(program):
    main, side = program.stream(), program.stream()
    program.run(main, 100)
    program.synchronize()
    program.run(side, 100)
    assert kinds(program) == [
        (LAUNCH, 5 * US),
        (WORK, 100 * US),
        (WAIT, 100 * US),
        (LAUNCH, 5 * US),
        (WORK, 100 * US),
    ]


def test_the_durations_of_the_links_add_up_to_the_makespan(program):
    streams = [program.stream() for _ in range(3)]
    x = program.tensor(streams[0])
    for number in range(30):
        program.wait(streams[number % 3], streams[(number + 2) % 3])
        program.run(streams[number % 3], 10 + number, reads=[x], writes=[x])
    whole = sum(link.nanoseconds for link in found(program) if link.kind in {WORK, LAUNCH})
    assert whole == program.analysis().makespan
    short = found(program, most=10)
    assert len([link for link in short if link.kind is not LEFT_OUT]) == 10
    assert sum(link.nanoseconds for link in short if link.kind in {WORK, LAUNCH, LEFT_OUT}) == whole
    shown = [link.first for link in short if link.kind is WORK]
    assert shown == sorted(shown)
    hidden = sum(link.count for link in short if link.kind is LEFT_OUT)
    assert hidden == len(found(program)) - 10


def test_a_program_without_work_has_no_path(program):
    assert found(program) == ()
