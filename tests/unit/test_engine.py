"""Happens-before edges, and the memory hazards that follow from them: each in a few lines.

`engine, (a, b) = streams(0, 0)` creates two pool streams of device 0. The block `X` is allocated on the first stream,
and every stream is ordered after that; `PINNED` is pinned host memory.
"""

import pytest

from syncheck.errors import TraceError
from syncheck.hb import memory
from syncheck.hb.clock import HOST
from syncheck.hb.engine import HOST_POOL, Engine, Race
from syncheck.hb.footprint import dense, strided
from syncheck.hb.memory import SMALL_BYTES
from syncheck.hb.order import WaitResult

X, Y, PINNED = 1, 2, 3
WHOLE, LEFT, RIGHT, FRONT, BACK = range(5)
_FOOTPRINTS = (
    dense(0, 128),
    strided(0, (4, 4), (8, 1), 4),
    strided(16, (4, 4), (8, 1), 4),
    dense(0, 64),
    dense(64, 128),
)
EVENT, OTHER_EVENT = 1, 2
GRAPH_POOL, PRIVATE_POOL = -2, 7


def give_memory(engine: Engine, home: int) -> None:
    for footprint in _FOOTPRINTS:
        engine.add_view(footprint)
    engine.allocate(X, home, 128, 0, 0)
    engine.allocate(PINNED, HOST, 128, HOST_POOL, 0)
    engine.sync_device(0)  # orders the streams of device 0 after the allocation


def streams(*devices: int) -> tuple[Engine, list[int]]:
    engine = Engine()
    made = [engine.add_stream(device) for device in devices]
    give_memory(engine, made[0])
    return engine, made


def read(engine: Engine, stream: int, allocation: int = X, view: int = WHOLE, label: int = 0) -> list[Race]:
    return engine.launch(stream, [(allocation, view, False)], label)


def write(engine: Engine, stream: int, allocation: int = X, view: int = WHOLE, label: int = 0) -> list[Race]:
    return engine.launch(stream, [(allocation, view, True)], label)


def host_read(engine: Engine, allocation: int = PINNED) -> list[Race]:
    return engine.host_access(allocation, WHOLE, 0, is_write=False)


def host_write(engine: Engine, allocation: int = PINNED) -> list[Race]:
    return engine.host_access(allocation, WHOLE, 0, is_write=True)


# -- conflicts


def test_one_stream_runs_in_submission_order():
    engine, (a,) = streams(0)
    assert not write(engine, a)
    assert not read(engine, a)
    assert not write(engine, a)


def test_a_read_on_another_stream_races_with_a_write():
    engine, (a, b) = streams(0, 0)
    write(engine, a, label=5)
    (race,) = read(engine, b, label=6)
    assert (race.prior.actor, race.prior.label, race.prior.is_write) == (a, 5, True)
    assert (race.current.actor, race.current.label, race.current.is_write) == (b, 6, False)


def test_a_write_on_another_stream_races_with_a_read():
    engine, (a, b) = streams(0, 0)
    read(engine, a, label=5)
    (race,) = write(engine, b)
    assert (race.prior.actor, race.prior.label, race.prior.is_write) == (a, 5, False)


def test_two_reads_never_race():
    engine, (a, b) = streams(0, 0)
    read(engine, a)
    assert not read(engine, b)


def test_a_writer_must_wait_for_every_reader():
    engine, (a, b, c) = streams(0, 0, 0)
    read(engine, a)
    read(engine, b)
    engine.wait_stream(c, b)
    assert [race.prior.actor for race in write(engine, c)] == [a]


def test_a_writer_that_waits_for_every_reader_is_safe():
    engine, (a, b, c) = streams(0, 0, 0)
    read(engine, a)
    read(engine, b)
    engine.wait_stream(c, a)
    engine.wait_stream(c, b)
    assert not write(engine, c)


def test_an_operation_does_not_race_with_itself():
    engine, (a,) = streams(0)
    assert not engine.launch(a, [(X, WHOLE, False), (X, WHOLE, True), (X, LEFT, True)], 0)


def test_column_halves_do_not_conflict():
    engine, (a, b) = streams(0, 0)
    write(engine, a, view=LEFT)
    assert not write(engine, b, view=RIGHT)


def test_overlapping_views_conflict():
    engine, (a, b) = streams(0, 0)
    write(engine, a, view=LEFT)
    assert write(engine, b, view=FRONT)


def test_a_write_of_one_half_leaves_the_history_of_the_other():
    engine, (a, b) = streams(0, 0)
    write(engine, b)
    engine.wait_stream(a, b)
    write(engine, a, view=FRONT)
    engine.wait_stream(b, a)
    assert not write(engine, b, view=FRONT)
    assert write(engine, a, view=BACK) == []
    assert write(engine, b, view=BACK)


def test_different_allocations_do_not_conflict():
    engine, (a, b) = streams(0, 0)
    engine.allocate(Y, b, 128, 0, 0)
    write(engine, a, X)
    assert not write(engine, b, Y)


# -- submission: the order of the host


def test_submitted_work_is_ordered_after_what_the_host_waited_for():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    engine.sync_stream(a)
    assert not write(engine, b)


def test_work_after_a_synchronization_is_not_covered_by_it():
    engine, (a, b) = streams(0, 0)
    engine.sync_stream(a)
    write(engine, a)
    assert write(engine, b)


def test_a_new_stream_is_ordered_after_what_the_host_waited_for():
    engine, (a,) = streams(0)
    write(engine, a)
    engine.sync_stream(a)
    assert not write(engine, engine.add_stream(0))


def test_a_new_stream_does_not_wait_for_the_others():
    engine, (a,) = streams(0)
    write(engine, a)
    assert write(engine, engine.add_stream(0))


# -- events


def test_a_wait_orders_the_work_before_the_record():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    engine.record(EVENT, a)
    assert engine.wait(EVENT, b) is WaitResult.ORDERED
    assert not write(engine, b)


def test_a_wait_does_not_order_the_work_after_the_record():
    engine, (a, b) = streams(0, 0)
    engine.record(EVENT, a)
    write(engine, a)
    engine.wait(EVENT, b)
    assert write(engine, b)


def test_a_wait_comes_too_late_for_work_submitted_before_it():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    engine.record(EVENT, a)
    assert read(engine, b)
    engine.wait(EVENT, b)


def test_a_wait_orders_only_one_direction():
    engine, (a, b) = streams(0, 0)
    write(engine, b)
    engine.record(EVENT, a)
    engine.wait(EVENT, b)
    assert write(engine, a)


def test_order_passes_through_a_third_stream():
    engine, (a, b, c) = streams(0, 0, 1)
    write(engine, a)
    engine.wait_stream(c, a)
    engine.wait_stream(b, c)
    assert not write(engine, b)


def test_a_wait_for_an_unrecorded_event_orders_nothing():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    assert engine.wait(EVENT, b) is WaitResult.NEVER_RECORDED
    engine.record(EVENT, a)
    assert write(engine, b)


def test_a_later_record_replaces_the_snapshot_but_earlier_waits_keep_it():
    engine, (a, b, c) = streams(0, 0, 0)
    write(engine, a)
    engine.record(EVENT, a)
    engine.wait(EVENT, b)
    engine.record(EVENT, c)
    assert not write(engine, b)
    assert engine.wait(EVENT, c) is WaitResult.REDUNDANT
    assert write(engine, c)


def test_a_wait_after_a_later_record_covers_the_later_work():
    engine, (a, b) = streams(0, 0)
    engine.record(EVENT, a)
    write(engine, a)
    engine.record(EVENT, a)
    engine.wait(EVENT, b)
    assert not write(engine, b)


def test_an_event_wait_does_not_make_the_host_wait():
    engine, (a, b) = streams(0, 0)
    write(engine, a, PINNED)
    engine.record(EVENT, a)
    engine.wait(EVENT, b)
    assert host_read(engine)
    assert list(engine.unfinished()) == [a]


def test_synchronizing_an_event_makes_the_host_wait():
    engine, (a,) = streams(0)
    write(engine, a, PINNED)
    engine.record(EVENT, a)
    assert engine.sync_event(EVENT) is WaitResult.ORDERED
    assert not host_read(engine)
    assert not engine.unfinished()


def test_synchronizing_an_event_does_not_cover_later_work():
    engine, (a,) = streams(0)
    engine.record(EVENT, a)
    write(engine, a, PINNED)
    engine.sync_event(EVENT)
    assert host_read(engine)


def test_synchronizing_an_unrecorded_event_waits_for_nothing():
    engine, (a,) = streams(0)
    write(engine, a, PINNED)
    assert engine.sync_event(EVENT) is WaitResult.NEVER_RECORDED
    assert host_read(engine)


def test_a_new_stream_can_wait_for_an_earlier_event():
    engine, (a,) = streams(0)
    write(engine, a)
    engine.record(EVENT, a)
    late = engine.add_stream(0)
    write(engine, late, PINNED)
    assert engine.wait(EVENT, late) is WaitResult.ORDERED
    assert not write(engine, late)


def test_an_event_carries_what_its_stream_had_waited_for():
    engine, (a, b, c) = streams(0, 0, 0)
    write(engine, a)
    engine.wait_stream(b, a)
    engine.record(EVENT, b)
    engine.wait(EVENT, c)
    assert not write(engine, c)


def test_records_before_and_after_a_wait_differ():
    engine, (a, b, c) = streams(0, 0, 0)
    engine.record(EVENT, b)
    write(engine, a)
    engine.wait_stream(b, a)
    engine.record(OTHER_EVENT, b)
    engine.wait(EVENT, c)
    assert engine.wait(OTHER_EVENT, c) is WaitResult.ORDERED
    assert not write(engine, c)


def test_a_destroyed_event_counts_as_unrecorded():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    engine.record(EVENT, a)
    engine.forget_event(EVENT)
    engine.forget_event(OTHER_EVENT)
    assert engine.wait(EVENT, b) is WaitResult.NEVER_RECORDED
    assert write(engine, b)


# -- streams


def test_wait_stream_covers_work_submitted_so_far():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    assert engine.wait_stream(b, a) is WaitResult.ORDERED
    assert not write(engine, b)
    read(engine, a)
    assert write(engine, b)


def test_wait_stream_does_not_make_the_host_wait():
    engine, (a, b) = streams(0, 0)
    write(engine, a, PINNED)
    engine.wait_stream(b, a)
    assert host_read(engine)


def test_synchronizing_one_stream_does_not_cover_another():
    engine, (a, b) = streams(0, 0)
    write(engine, a, PINNED)
    engine.sync_stream(b)
    assert host_read(engine)


def test_synchronizing_a_stream_covers_what_it_waited_for():
    engine, (a, b) = streams(0, 0)
    write(engine, a, PINNED)
    engine.wait_stream(b, a)
    assert engine.sync_stream(b)
    assert not host_read(engine)


def test_synchronizing_a_device_waits_for_all_its_streams():
    engine, (a, b) = streams(0, 0)
    write(engine, a, PINNED, FRONT)
    write(engine, b, PINNED, BACK)
    assert engine.sync_device(0)
    assert not host_read(engine)
    assert not engine.sync_device(0)


def test_synchronizing_one_device_does_not_cover_another():
    engine, (a, b) = streams(0, 1)
    write(engine, b, PINNED)
    engine.sync_device(0)
    assert host_read(engine)
    assert [race.prior.actor for race in write(engine, a, PINNED)] == [b]


def test_synchronizing_a_device_without_streams_waits_for_nothing():
    engine, (a,) = streams(0)
    write(engine, a, PINNED)
    assert not engine.sync_device(3)
    assert host_read(engine)


def test_a_wait_that_adds_no_order_is_redundant():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    engine.wait_stream(b, a)
    assert engine.wait_stream(b, a) is WaitResult.REDUNDANT
    assert engine.wait_stream(a, a) is WaitResult.REDUNDANT


def test_a_wait_for_what_the_host_already_waited_for_is_redundant():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    engine.record(EVENT, a)
    engine.sync_stream(a)
    assert engine.wait(EVENT, b) is WaitResult.REDUNDANT
    assert engine.sync_event(EVENT) is WaitResult.REDUNDANT


# -- the legacy default stream


def legacy_and_blocking() -> tuple[Engine, list[int]]:
    """Return an engine with one legacy stream, two blocking streams and one pool stream."""
    engine = Engine()
    made = [
        engine.add_stream(0, is_blocking=True),
        engine.add_stream(0, is_legacy=True),
        engine.add_stream(0, is_blocking=True),
        engine.add_stream(0),
    ]
    give_memory(engine, made[1])
    return engine, made


def test_default_streams_of_different_devices_are_different():
    engine = Engine()
    a, b = (engine.add_stream(device, is_legacy=True) for device in (0, 1))
    give_memory(engine, a)
    write(engine, a, PINNED)
    assert write(engine, b, PINNED)


def test_a_pool_stream_is_unordered_with_the_default_stream():
    engine, (_, legacy, _, pool) = legacy_and_blocking()
    write(engine, legacy)
    assert write(engine, pool)
    write(engine, legacy)


@pytest.mark.parametrize("which", [0, 2], ids=["made before", "made after"])
def test_a_blocking_stream_is_ordered_with_the_default_stream_both_ways(which):
    engine, made = legacy_and_blocking()
    legacy, blocking = made[1], made[which]
    assert not write(engine, legacy)
    assert not write(engine, blocking)
    assert not write(engine, legacy)


def test_two_blocking_streams_are_unordered():
    engine, (first, _, second, _) = legacy_and_blocking()
    write(engine, first)
    assert write(engine, second)


def test_work_on_the_default_stream_orders_two_blocking_streams():
    engine, (first, legacy, second, _) = legacy_and_blocking()
    write(engine, first)
    write(engine, legacy, PINNED)
    assert not write(engine, second)


@pytest.mark.parametrize("act", ["allocate", "free", "clock", "stream_covers"])
def test_memory_calls_and_queries_are_not_work_on_the_default_stream(act):
    engine, (first, legacy, second, _) = legacy_and_blocking()
    engine.allocate(Y, legacy, 128, 0, 0)
    write(engine, legacy, Y)
    write(engine, first)
    match act:
        case "allocate":
            engine.allocate(9, legacy, 128, 0, 0)
        case "free":
            engine.free(Y, 0)
        case "clock":
            engine.clock(legacy)
        case _:
            engine.stream_covers(legacy, engine.now(first))
    assert write(engine, second)


def test_a_record_on_a_blocking_stream_is_ordered_after_the_default_stream():
    engine, (blocking, legacy, _, pool) = legacy_and_blocking()
    engine.record(EVENT, blocking)
    write(engine, legacy)
    engine.record(OTHER_EVENT, blocking)
    assert engine.wait(OTHER_EVENT, pool) is WaitResult.ORDERED
    assert not write(engine, pool)


def test_waiting_for_a_blocking_stream_covers_the_default_stream():
    engine, (blocking, legacy, _, pool) = legacy_and_blocking()
    write(engine, legacy)
    engine.wait_stream(pool, blocking)
    assert not write(engine, pool)


def test_synchronizing_the_default_stream_covers_the_blocking_streams():
    engine, (blocking, legacy, _, _) = legacy_and_blocking()
    write(engine, blocking, PINNED)
    engine.sync_stream(legacy)
    assert not host_read(engine)


def test_a_blocking_stream_is_unordered_with_another_devices_default_stream():
    engine = Engine()
    legacy = engine.add_stream(0, is_legacy=True)
    blocking = engine.add_stream(1, is_blocking=True)
    give_memory(engine, legacy)
    write(engine, legacy, PINNED)
    assert write(engine, blocking, PINNED)


# -- hazard: missing record_stream


def used_elsewhere(n_bytes: int = 128, pool: int = 0) -> tuple[Engine, int, int]:
    """Return an engine in which `Y`, allocated on the first stream, was used on the second and is not freed yet."""
    engine, (home, user) = streams(0, 0)
    engine.allocate(Y, home, n_bytes, pool, 11)
    engine.wait_stream(user, home)
    write(engine, user, Y, label=12)
    return engine, home, user


def hazards(engine: Engine, home: int, n_bytes: int = 128, pool: int = 0, allocation: int = 9) -> list[tuple[int, int]]:
    freed = engine.allocate(allocation, home, n_bytes, pool, 14)
    return [(use.allocation, use.use.actor) for use in freed]


def test_freed_memory_in_use_on_another_stream_is_a_hazard_at_the_next_allocation():
    engine, home, user = used_elsewhere()
    engine.free(Y, 13)
    (freed,) = engine.allocate(9, home, 128, 0, 14)
    assert (freed.allocation, freed.home, freed.use.actor) == (Y, home, user)
    assert (freed.allocation_label, freed.use.label, freed.free_label) == (11, 12, 13)


@pytest.mark.parametrize("wait", ["the host", "its home stream"])
def test_freed_memory_is_held_until_its_uses_are_waited_for(wait):
    engine, home, user = used_elsewhere()
    assert not engine.holds_used_memory()
    engine.free(Y, 13)
    assert engine.holds_used_memory()
    if wait == "the host":
        engine.sync_stream(user)
    else:
        engine.record(EVENT, user)
        engine.wait(EVENT, home)
    assert not engine.holds_used_memory()


def test_an_empty_allocation_gets_no_freed_memory():
    engine, home, user = used_elsewhere()
    engine.free(Y, 13)
    assert hazards(engine, home, n_bytes=0, allocation=8) == []
    assert hazards(engine, home) == [(Y, user)]


def test_a_hazard_is_reported_once():
    engine, home, _ = used_elsewhere()
    engine.free(Y, 0)
    assert hazards(engine, home)
    assert not hazards(engine, home, allocation=10)


def test_memory_used_only_on_its_own_stream_is_not_a_hazard():
    engine, (home,) = streams(0)
    write(engine, home)
    engine.free(X, 0)
    assert not hazards(engine, home)


def test_record_stream_removes_the_hazard():
    engine, home, user = used_elsewhere()
    assert not engine.record_stream(Y, user)
    assert engine.free(Y, 0).useless_records == ()
    assert not hazards(engine, home)


def test_record_stream_protects_work_up_to_the_free():
    engine, home, user = used_elsewhere()
    engine.record_stream(Y, user)
    read(engine, user, Y)
    engine.free(Y, 0)
    assert not hazards(engine, home)


def test_record_stream_of_one_user_does_not_protect_another():
    engine, home, user = used_elsewhere()
    third = engine.add_stream(0)
    engine.wait_stream(third, home)
    read(engine, third, X)
    engine.wait_stream(third, user)
    read(engine, third, Y)
    engine.record_stream(Y, user)
    engine.free(Y, 0)
    assert hazards(engine, home) == [(Y, third)]


def test_record_stream_protects_uses_that_the_stream_had_waited_for():
    engine, home, user = used_elsewhere()
    read(engine, user, Y, FRONT)
    third = engine.add_stream(0)
    engine.wait_stream(third, user)
    read(engine, third, Y)
    engine.record_stream(Y, third)
    engine.free(Y, 0)
    assert not hazards(engine, home)


def test_record_stream_of_the_home_stream_is_detected():
    engine, home, _ = used_elsewhere()
    assert engine.record_stream(Y, home)
    engine.free(Y, 0)
    assert hazards(engine, home)


def test_the_first_note_of_a_recorded_stream_is_kept():
    engine, _, user = used_elsewhere()
    engine.record_stream(Y, user, (1, 2))
    engine.record_stream(Y, user, (3, 4))
    assert engine.records(Y) == {user: (1, 2)}


def test_joining_before_the_free_is_safe():
    engine, home, user = used_elsewhere()
    engine.wait_stream(home, user)
    engine.free(Y, 0)
    assert not hazards(engine, home)


def test_joining_before_the_next_allocation_is_safe():
    engine, home, user = used_elsewhere()
    engine.free(Y, 0)
    engine.wait_stream(home, user)
    assert not hazards(engine, home)


def test_synchronizing_before_the_next_allocation_is_safe():
    engine, home, user = used_elsewhere()
    engine.free(Y, 0)
    engine.sync_stream(user)
    assert not hazards(engine, home)


def test_joining_the_user_before_its_use_is_not_enough():
    engine, home, user = used_elsewhere()
    engine.wait_stream(home, user)
    read(engine, user, Y)
    engine.free(Y, 0)
    assert hazards(engine, home) == [(Y, user)]


def test_an_unneeded_record_is_useless():
    engine, home, user = used_elsewhere()
    engine.record_stream(Y, user)
    engine.wait_stream(home, user)
    assert engine.free(Y, 0).useless_records == (user,)


def test_a_record_that_protects_one_of_two_uses_is_not_useless():
    engine, home, user = used_elsewhere()
    engine.wait_stream(home, user)
    read(engine, user, Y, FRONT)
    engine.record_stream(Y, user)
    assert engine.free(Y, 0).useless_records == ()


def test_a_record_that_protects_what_its_stream_waited_for_is_not_useless():
    engine, home, user = used_elsewhere()
    engine.wait_stream(home, user)
    third = engine.add_stream(0)
    engine.wait_stream(third, user)
    read(engine, third, Y, FRONT)
    engine.wait_stream(user, third)
    engine.record_stream(Y, user)
    assert engine.free(Y, 0).useless_records == ()
    assert not hazards(engine, home)


def test_a_record_made_unnecessary_only_by_the_host_counts_as_useful():
    engine, _, user = used_elsewhere()
    engine.record_stream(Y, user)
    engine.sync_stream(user)
    freed = engine.free(Y, 0)
    assert (freed.useless_records, freed.useful_records) == ((), (user,))


def test_the_latest_use_is_reported():
    engine, home, user = used_elsewhere()
    read(engine, user, Y, FRONT, label=21)
    read(engine, user, Y, BACK, label=22)
    read(engine, user, Y, FRONT, label=23)
    engine.free(Y, 0)
    (freed,) = engine.allocate(9, home, 128, 0, 0)
    assert (freed.use.label, freed.use.footprint) == (23, dense(0, 64))


def test_a_blocking_user_is_not_a_hazard_to_the_default_stream():
    engine, (blocking, legacy, _, _) = legacy_and_blocking()
    engine.allocate(Y, legacy, 128, 0, 0)
    write(engine, blocking, Y)
    engine.free(Y, 0)
    assert not hazards(engine, legacy)


def test_each_user_is_a_separate_hazard():
    engine, home, user = used_elsewhere()
    third = engine.add_stream(0)
    engine.wait_stream(third, home)
    read(engine, third, Y, BACK)
    engine.free(Y, 0)
    assert sorted(hazards(engine, home)) == [(Y, user), (Y, third)]


def test_an_allocation_on_another_stream_never_gets_the_memory():
    engine, _, user = used_elsewhere()
    engine.free(Y, 0)
    assert not hazards(engine, user)


@pytest.mark.parametrize(("old", "new"), [(SMALL_BYTES, SMALL_BYTES + 1), (SMALL_BYTES + 1, SMALL_BYTES)])
def test_small_and_large_blocks_are_never_exchanged(old, new):
    engine, home, user = used_elsewhere(n_bytes=old)
    engine.free(Y, 0)
    assert not hazards(engine, home, new)
    assert hazards(engine, home, old, allocation=10) == [(Y, user)]


def test_private_pools_never_share_memory_with_the_default_pool():
    engine, home, user = used_elsewhere(pool=PRIVATE_POOL)
    engine.free(Y, 0)
    assert not hazards(engine, home)
    assert hazards(engine, home, pool=PRIVATE_POOL, allocation=10) == [(Y, user)]


def test_the_memory_of_a_graph_stays_with_it():
    engine, home, _ = used_elsewhere(pool=GRAPH_POOL)
    engine.free(Y, 0)
    assert not hazards(engine, home, pool=GRAPH_POOL)


def test_pinned_memory_may_be_freed_while_in_use():
    engine, (a, b) = streams(0, 0)
    write(engine, a, PINNED)
    assert engine.free(PINNED, 0).useless_records == ()
    assert not engine.allocate(9, HOST, 128, HOST_POOL, 0)
    assert not write(engine, b, 9)


def test_of_two_frees_with_one_cause_the_use_joined_last_counts():
    engine, (home, user) = streams(0, 0)
    for allocation in (8, 9):
        engine.allocate(allocation, home, 128, 0, 11)
        write(engine, user, allocation, label=12)
        engine.record(allocation, user)
    engine.free(9, 13)
    engine.free(8, 13)
    engine.wait(8, home)
    assert hazards(engine, home, allocation=10) == [(9, user)]


def test_a_large_block_does_not_hide_a_small_one_with_the_same_cause():
    engine, (home, user) = streams(0, 0)
    for allocation, n_bytes in ((8, 128), (9, SMALL_BYTES + 1)):
        engine.allocate(allocation, home, n_bytes, 0, 11)
        write(engine, user, allocation, label=12)
        engine.free(allocation, 13)
    assert hazards(engine, home, allocation=10) == [(8, user)]


# -- hazard: unordered first use


def just_allocated() -> tuple[Engine, int, int]:
    """Return an engine in which `Y` was just allocated on the busy first stream, unordered with the second."""
    engine, (home, user) = streams(0, 0)
    write(engine, home)
    engine.allocate(Y, home, 128, 0, 11)
    return engine, home, user


@pytest.mark.parametrize("access", [read, write])
def test_first_use_on_another_stream_is_a_hazard(access):
    engine, home, user = just_allocated()
    (race,) = access(engine, user, Y)
    assert race.is_first_use
    assert (race.prior.actor, race.prior.label, race.prior.epoch) == (home, 11, engine.now(home))


def test_first_use_on_the_home_stream_is_safe():
    engine, home, _ = just_allocated()
    assert not write(engine, home, Y)


def test_first_use_after_waiting_for_the_home_stream_is_safe():
    engine, home, user = just_allocated()
    engine.wait_stream(user, home)
    assert not write(engine, user, Y)


def test_first_use_after_a_wait_before_the_allocation_is_safe_if_home_stayed_idle():
    engine, (home, user) = streams(0, 0)
    write(engine, home)
    engine.wait_stream(user, home)
    engine.allocate(Y, home, 128, 0, 0)
    assert not write(engine, user, Y)


def test_first_use_after_the_host_waited_for_the_home_stream_is_safe():
    engine, home, user = just_allocated()
    engine.sync_stream(home)
    assert not write(engine, user, Y)


def test_an_early_first_use_is_reported_once():
    engine, _, user = just_allocated()
    third = engine.add_stream(0)
    assert write(engine, user, Y, FRONT)
    assert not write(engine, third, Y, BACK)
    assert not write(engine, user, Y)[1:]


def test_each_part_of_the_block_has_a_first_use():
    engine, home, user = just_allocated()
    write(engine, home, Y, FRONT)
    (race,) = write(engine, user, Y, BACK)
    assert race.is_first_use


def test_a_race_with_a_real_access_takes_precedence_over_the_first_use():
    engine, home, user = just_allocated()
    read(engine, home, Y, label=7)
    (race,) = write(engine, user, Y)
    assert not race.is_first_use
    assert (race.prior.actor, race.prior.label) == (home, 7)


@pytest.mark.parametrize("pool", [HOST_POOL, GRAPH_POOL])
def test_memory_without_a_previous_tenant_in_flight_has_no_first_use(pool):
    engine, (home, user) = streams(0, 0)
    write(engine, home)
    engine.allocate(Y, HOST if pool == HOST_POOL else home, 128, pool, 0)
    assert not write(engine, user, Y)


# -- pinned memory and the host


def test_the_host_must_not_read_what_a_copy_still_writes():
    engine, (a,) = streams(0)
    write(engine, a, PINNED, label=5)
    (race,) = host_read(engine)
    assert (race.prior.actor, race.prior.label, race.current.actor) == (a, 5, HOST)


def test_the_host_must_not_modify_what_a_copy_still_reads():
    engine, (a,) = streams(0)
    read(engine, a, PINNED)
    assert not host_read(engine)
    assert host_write(engine)


def test_the_host_may_access_memory_after_a_synchronization():
    engine, (a,) = streams(0)
    write(engine, a, PINNED)
    engine.sync_stream(a)
    assert not host_read(engine)
    assert not host_write(engine)


def test_host_accesses_are_ordered_before_later_submissions():
    engine, (a, b) = streams(0, 0)
    host_write(engine)
    assert not write(engine, a, PINNED)
    engine.sync_stream(a)
    host_write(engine)
    assert not read(engine, b, PINNED)


def test_host_memory_that_no_stream_used_has_no_conflicts():
    engine, _ = streams(0)
    assert not host_write(engine)
    assert not host_write(engine, allocation=99)  # pageable: unknown to the engine


# -- errors in a trace


def test_unknown_allocation_raises_trace_error():
    engine, (a,) = streams(0)
    for use in (
        lambda: write(engine, a, 99),
        lambda: engine.free(99, 0),
        lambda: engine.record_stream(99, a),
        lambda: engine.records(99),
    ):
        with pytest.raises(TraceError, match="99"):
            use()


def test_freed_allocation_raises_trace_error():
    engine, (a,) = streams(0)
    assert engine.is_live(X)
    engine.free(X, 0)
    assert not engine.is_live(X)
    with pytest.raises(TraceError, match="freed"):
        write(engine, a)
    with pytest.raises(TraceError, match="freed"):
        engine.free(X, 0)


# -- healing, clones, queries


def test_a_healed_race_is_not_reported_at_every_later_use():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    (race,) = read(engine, b)
    engine.assume_ordered(race)
    assert not write(engine, b)
    assert not write(engine, b)


def test_healing_adds_one_direction_only():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    (race,) = write(engine, b)
    engine.assume_ordered(race)
    (back,) = write(engine, a)
    assert (back.prior.actor, back.current.actor) == (b, a)


def test_healing_does_not_cover_work_submitted_later():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    (race,) = read(engine, b)
    engine.assume_ordered(race)
    write(engine, a)
    assert read(engine, b)


def test_a_race_with_the_host_is_healed_by_ordering_the_host():
    engine, (a,) = streams(0)
    write(engine, a, PINNED)
    (race,) = host_read(engine)
    engine.assume_ordered(race)
    assert not host_read(engine)


def test_a_first_use_is_healed_like_a_race():
    engine, home, user = just_allocated()
    (race,) = write(engine, user, Y)
    engine.assume_ordered(race)
    assert engine.stream_covers(user, engine.now(home))


def test_the_race_whose_fix_covers_the_others_comes_first():
    engine, (a, b, c) = streams(0, 0, 0)
    read(engine, a)
    engine.wait_stream(b, a)
    read(engine, b, view=FRONT)
    races = write(engine, c)
    first, *_ = engine.order_root_causes_first(races)
    assert sorted(race.prior.actor for race in races) == [a, b]
    assert first.prior.actor == b
    engine.assume_ordered(first)
    assert all(engine.covers(c, race.prior.epoch) for race in races)


def test_cloned_streams_have_the_same_numbers_and_no_history():
    engine, (a, b) = streams(0, 1)
    write(engine, a, PINNED)
    engine.record(EVENT, a)
    inside = engine.clone_streams()
    assert not inside.is_live(PINNED)
    assert inside.wait(EVENT, b) is WaitResult.NEVER_RECORDED
    inside.allocate(PINNED, HOST, 128, HOST_POOL, 0)
    assert not write(inside, b, PINNED)
    assert write(inside, a, PINNED)
    assert write(engine, b, PINNED)


def test_a_clone_shares_footprints_added_later():
    engine, (a,) = streams(0)
    inside = engine.clone_streams()
    inside.allocate(Y, HOST, 128, GRAPH_POOL, 0)
    assert not write(inside, a, Y, engine.add_view(dense(3, 5)))


def test_unfinished_streams_have_work_the_host_did_not_wait_for():
    engine, (a, b) = streams(0, 0)
    assert not engine.unfinished()
    write(engine, a, PINNED, FRONT)
    write(engine, b, PINNED, BACK)
    engine.sync_stream(a)
    assert engine.unfinished() == {b: engine.now(b)}
    assert engine.host_covers(engine.now(a))
    assert not engine.host_covers(engine.now(b))


def test_a_snapshot_is_pending_until_the_host_waits_for_its_work():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    engine.record(EVENT, a)
    assert engine.is_pending(engine.snapshot(EVENT), excluded=b)
    assert not engine.is_pending(engine.snapshot(EVENT), excluded=a)
    engine.sync_stream(a)
    assert not engine.is_pending(engine.snapshot(EVENT), excluded=b)


def test_clock_returns_a_copy():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    engine.clock(b)[a] = engine.now(a)
    assert write(engine, b)


def test_submitted_returns_the_last_epoch_of_each_stream():
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    assert engine.submitted() == [0, engine.now(a), engine.now(b)]
    assert engine.now(a) > a
    assert engine.now(b) == b


# -- history stays small but never loses a conflict


def count_cells(engine: Engine) -> int:
    return sum(len(block.cells) for block in engine._blocks.values())


def test_a_write_of_the_whole_leaves_one_access_to_remember():
    engine, (a, b) = streams(0, 0)
    for stream in (a, b):
        for view in (WHOLE, LEFT, RIGHT, FRONT, BACK):
            read(engine, stream, view=view)
    engine.wait_stream(a, b)
    write(engine, a, label=7)
    assert [(label, is_write) for _, label, _, is_write in engine._blocks[X].uses()] == [(7, True)]


def test_history_of_a_fixed_set_of_tensors_is_bounded():
    engine, (a, b) = streams(0, 0)
    for turn in range(20_000):
        reader, writer = (a, b) if turn % 2 else (b, a)
        engine.wait_stream(reader, writer)
        assert not engine.launch(reader, [(X, turn % 5, False), (PINNED, WHOLE, True)], turn)
    assert count_cells(engine) == 6
    assert all(len(list(cell.all_reads())) <= 2 for block in engine._blocks.values() for cell in block.cells.values())


def test_freed_memory_leaves_no_history_behind():
    engine, (home, user) = streams(0, 0)
    for turn in range(2_000):
        engine.allocate(100 + turn, home, 128, 0, 1)
        engine.wait_stream(user, home)
        write(engine, user, 100 + turn, label=2)
        engine.free(100 + turn, 3)
    assert count_cells(engine) == 0
    assert sum(len(pool.pending) for pool in engine._pools.values()) <= 1


def test_views_completed_before_a_host_wait_are_forgotten():
    engine, (a,) = streams(0)
    for turn in range(2_000):
        write(engine, a, view=engine.add_view(dense(turn, turn + 1)))
        if turn % 10 == 9:
            engine.sync_stream(a)
    assert count_cells(engine) < 100


def test_prune_never_loses_an_unordered_access():
    engine, (a, b) = streams(0, 0)
    rows = [engine.add_view(dense(row, row + 1)) for row in range(500)]
    for row in rows[:300]:
        write(engine, a, view=row)
    engine.sync_stream(a)
    for row in rows[300:]:
        write(engine, a, view=row)
    assert not any(write(engine, b, view=row) for row in rows[:300])
    assert all(write(engine, b, view=row) for row in rows[300:])


def test_prune_never_loses_an_access_that_only_some_streams_waited_for():
    engine, (a, b, c) = streams(0, 0, 0)
    rows = [engine.add_view(dense(row, row + 1)) for row in range(500)]
    for row in rows:
        write(engine, a, view=row)
        engine.wait_stream(b, a)
    assert not any(write(engine, b, view=row) for row in rows)
    assert all(write(engine, c, view=row) for row in rows)


def test_prune_never_loses_a_first_use():
    engine, (home, user) = streams(0, 0)
    write(engine, home)
    engine.allocate(Y, home, 1_000, 0, 0)
    for row in range(500):
        write(engine, home, Y, engine.add_view(dense(row, row + 1)))
    (race,) = write(engine, user, Y, engine.add_view(dense(600, 700)))
    assert race.is_first_use


def test_more_streams_than_an_epoch_can_number_are_rejected():
    engine = Engine()
    for _ in range(4095):
        engine.add_stream(0)
    with pytest.raises(TraceError, match="4095"):
        engine.add_stream(0)


def test_unordered_lists_streams_whose_last_work_is_not_covered():
    engine, (home, user, idle) = streams(0, 0, 0)
    write(engine, home)
    engine.allocate(Y, user, 1_000, 0, 0)
    write(engine, user, Y)
    assert engine.unordered(home) == [user]
    assert engine.unordered(idle) == [home, user]
    engine.wait_stream(idle, home)
    assert engine.unordered(idle) == [user]


def test_follows_others_requires_order_after_all_other_accesses() -> None:
    engine, (a, b) = streams(0, 0)
    assert engine.is_ordered_after_all(a, X)
    assert not engine.is_ordered_after_all(b, X)  # as long as one stream has used it, another is not its owner
    engine.launch(a, [(X, LEFT, True)], 1)
    engine.launch(a, [(X, RIGHT, True)], 2)
    engine.record(EVENT, a)
    engine.launch(a, [(X, BACK, False)], 3)
    engine.wait(EVENT, b)
    engine.launch(b, [(X, FRONT, False)], 4)
    assert not engine.is_ordered_after_all(b, X)  # the read of BACK came after the event
    assert not engine.is_ordered_after_all(a, X)
    engine.record(EVENT, a)
    engine.wait(EVENT, b)
    assert engine.is_ordered_after_all(b, X)
    engine.record(EVENT, b)
    engine.wait(EVENT, a)
    assert engine.is_ordered_after_all(a, X)
    engine.launch(b, [(X, FRONT, False)], 5)
    assert not engine.is_ordered_after_all(a, X)
    assert not engine.is_ordered_after_all(a, PINNED)
    assert not engine.is_ordered_after_all(a, 99)


# -- alternatives


def rewound(engine: Engine, waiting: int, awaited: int) -> list[list[int]]:
    """Let a stream, and the host, wait for another one in an alternative; return the clocks with these waits."""
    before = engine.clocks()
    engine.wait_stream(waiting, awaited)
    engine.sync_stream(awaited)
    return engine.rewind(before)


def test_waits_of_an_alternative_count_only_after_what_happens_in_its_place() -> None:
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    other = rewound(engine, b, a)
    assert not engine.stream_covers(b, engine.now(a))
    assert not engine.host_covers(engine.now(a))
    first = engine.now(a)
    write(engine, a)  # the other alternative waits for nothing that is launched here
    engine.advance(other)
    assert engine.stream_covers(b, first)
    assert engine.host_covers(first)
    assert not engine.stream_covers(b, engine.now(a))
    assert not engine.host_covers(engine.now(a))


def test_a_stream_created_in_an_alternative_is_kept() -> None:
    engine, (a, _) = streams(0, 0)
    write(engine, a)
    before = engine.clocks()
    c = engine.add_stream(0)
    engine.wait_stream(c, a)
    other = engine.rewind(before)
    assert len(engine.clocks()) == len(other)
    engine.advance(other)
    assert engine.stream_covers(c, engine.now(a))


def test_a_record_in_front_of_an_alternative_does_not_cover_what_it_waits_for() -> None:
    engine, (a, b) = streams(0, 0)
    write(engine, a)
    rewound(engine, b, a)
    engine.record(EVENT, b)
    assert not any(epoch == engine.now(a) for epoch in engine.snapshot(EVENT))


def test_with_several_threads_alternatives_are_not_separated() -> None:
    engine, (a, b) = streams(0, 0)
    engine.switch_host(2)
    write(engine, a)
    before = engine.clocks()
    engine.wait_stream(b, a)
    engine.advance(engine.rewind(before))
    assert engine.stream_covers(b, engine.now(a))


def test_a_view_used_again_in_private_memory_stands_for_all_its_bytes(monkeypatch) -> None:
    monkeypatch.setattr(memory, "_CROWDED", 0)
    engine, (a, b) = streams(0, 0)
    engine.allocate(1, a, 100, 0, 0)
    whole, front, part = (engine.add_view(dense(start, stop)) for start, stop in ((0, 10), (0, 5), (2, 3)))
    engine.launch(a, [(1, whole, True)], 1)
    engine.launch(a, [(1, front, True)], 2)  # takes over the front
    engine.record(EVENT, a)
    engine.launch(a, [(1, whole, False)], 3)
    engine.wait(EVENT, b)
    assert [race.prior.label for race in engine.launch(b, [(1, part, True)], 4)] == [3]
