"""The engine agrees with the slow reference for every program, at every op.

For each launch and each allocation, the engine reports a race if and only if an earlier conflicting access is not
ordered before the launch. After the first race on an allocation, the engine, like FastTrack, may have forgotten an
access that it would need. From then on, only the absence of false positives is checked.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncheck.hb import memory
from syncheck.hb.engine import Engine, Race
from syncheck.hb.footprint import strided
from syncheck.hb.order import WaitResult
from tests.properties import ops as p
from tests.properties.programs import N_PROGRAMS, programs, views
from tests.properties.reference import Conflict, Reference, Reuse, View


class Pair:
    """The engine and the reference, side by side."""

    def __init__(self, program: p.Program) -> None:
        self.program = program
        self.engine = Engine()
        self.reference = Reference()
        self.keys: dict[View, int] = {}
        self.raced: set[int] = set()  # allocations with a reported race

    def run(self) -> None:
        for index, op in enumerate(self.program.ops):
            self.step(op, self.program.label(index))
            assert set(self.engine.unfinished()) == self.reference.unfinished()

    def key(self, view: View) -> int:
        if view not in self.keys:
            self.keys[view] = self.engine.add_view(strided(*view))
        return self.keys[view]

    def step(self, op: p.Op, label: int) -> None:
        engine, reference = self.engine, self.reference
        match op:
            case p.AddStream():
                given_id = engine.add_stream(
                    op.device, is_legacy=op.kind == "legacy", is_blocking=op.kind == "blocking"
                )
                assert given_id == reference.add_stream(op.device, op.kind) == op.stream
            case p.Launch():
                self.launch(op, label)
            case p.HostAccess():
                self.host_access(op, label)
            case p.Allocate():
                freed = engine.allocate(op.allocation, op.home, op.n_bytes, op.pool, label)
                reuse = reference.allocate(op.allocation, op.home, op.n_bytes, op.pool, label)
                self.check_reuse(freed, reuse)
            case p.Free():
                self.free(op.allocation, label)
            case p.RecordStream():
                engine.record_stream(op.allocation, op.stream)
                reference.record_stream(op.allocation, op.stream)
            case _:
                self.order(op)

    def order(self, op: p.Op) -> None:
        engine, reference = self.engine, self.reference
        match op:
            case p.Record():
                engine.record(op.event, op.stream)
                reference.record(op.event, op.stream)
            case p.ForgetEvent():
                engine.forget_event(op.event)
                reference.forget_event(op.event)
            case p.Wait():
                assert engine.wait(op.event, op.stream) is _result(reference.wait(op.event, op.stream))
            case p.WaitStream():
                result = engine.wait_stream(op.stream, op.other)
                assert result is _result(reference.wait_stream(op.stream, op.other))
            case p.SyncEvent():
                assert engine.sync_event(op.event) is _result(reference.sync_event(op.event))
            case p.SyncStream():
                assert engine.sync_stream(op.stream) == reference.sync_stream(op.stream)
            case p.SyncDevice():
                assert engine.sync_device(op.device) == reference.sync_device(op.device)
            case _:
                raise AssertionError(op)

    # -- races

    def launch(self, op: p.Launch, label: int) -> None:
        accesses = [(allocation, self.key(view), is_write) for allocation, view, is_write in op.accesses]
        races = self.engine.launch(op.stream, accesses, label)
        found = self.reference.launch(op.stream, op.accesses, label)
        for allocation, conflicts in found.items():
            self.check_races(allocation, [race for race in races if race.allocation == allocation], conflicts)
        assert all(race.allocation in found for race in races)

    def host_access(self, op: p.HostAccess, label: int) -> None:
        races = self.engine.host_access(op.allocation, self.key(op.view), label, is_write=op.is_write)
        conflicts = self.reference.host_access(op.allocation, op.view, is_write=op.is_write)
        self.check_races(op.allocation, races, conflicts)

    def check_races(self, allocation: int, races: list[Race], conflicts: list[Conflict]) -> None:
        for race in races:
            assert any(_is_same(race, conflict) for conflict in conflicts), f"false: {race}"
        if allocation not in self.raced:
            with_access = [conflict for conflict in conflicts if conflict.prior is not None]
            assert bool(races) == bool(conflicts), f"missed: {conflicts}"
            assert any(not race.is_first_use for race in races) == bool(with_access), f"missed: {with_access}"
        if races:
            self.raced.add(allocation)

    # -- memory

    def free(self, allocation: int, label: int) -> None:
        freed = self.engine.free(allocation, label)
        may_be_useless = self.reference.free(allocation)
        assert not set(freed.useless_records) & set(freed.useful_records)
        assert allocation in self.raced or set(freed.useless_records) <= may_be_useless

    def check_reuse(self, freed: list[memory.FreedAccess], reuse: Reuse) -> None:
        """Compare by cause: of several uses with the same cause, the engine reports those of one op."""
        found = [(use.allocation, use.use.actor, use.use.label, use.allocation_label) for use in freed]
        assert len(found) == len(set(found))
        reported = {tuple(cause) for _, *cause in found}
        assert len(reported) == len({(use.use.epoch, use.use.label, use.allocation_label) for use in freed})
        may = {(use.allocation, *use.cause) for use in reuse.may}
        assert set(found) <= may
        assert {use.cause for use in reuse.must if use.allocation not in self.raced} <= reported


def _result(added_order: bool | None) -> WaitResult:
    if added_order is None:
        return WaitResult.NEVER_RECORDED
    return WaitResult.ORDERED if added_order else WaitResult.REDUNDANT


def _is_same(race: Race, conflict: Conflict) -> bool:
    """Return whether a race reports a conflict."""
    if race.current.is_write != conflict.is_write or race.is_first_use:
        return race.is_first_use and conflict.prior is None
    prior = conflict.prior
    return prior is not None and (race.prior.actor, race.prior.label, race.prior.is_write) == (
        prior.actor,
        prior.label,
        prior.is_write,
    )


@settings(max_examples=N_PROGRAMS)
@given(program=programs())
def test_engine_equals_reference(program):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "_FIRST_PRUNE", program.first_prune)
        Pair(program).run()


@pytest.mark.parametrize("few", [2, 32])
@settings(max_examples=N_PROGRAMS)
@given(program=programs())
def test_engine_equals_reference_if_cells_give_up_bytes(few, program):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "_FIRST_PRUNE", program.first_prune)
        patched.setattr(memory, "_FEW", few)
        patched.setattr(memory, "_CROWDED", 0)
        Pair(program).run()


@settings(max_examples=300)
@given(known=st.lists(views(), max_size=5), view=views())
def test_reads_on_the_home_stream_do_not_hide_a_first_use_elsewhere(known, view):
    engine = Engine()
    home, user = engine.add_stream(0), engine.add_stream(0)
    engine.allocate(1, home, p.SMALL, 0, 0)
    for seen in known:
        engine.launch(home, [(1, engine.add_view(strided(*seen)), False)], 0)
    (race,) = engine.launch(user, [(1, engine.add_view(strided(*view)), False)], 0)
    assert race.is_first_use
