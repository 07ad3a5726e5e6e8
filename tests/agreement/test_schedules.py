"""The engine's verdict matches the schedules: a race-free program has one result, and a race can occur in two orders.

`tests/properties/test_engine_equals_reference.py` compares the same random programs with graph reachability, so that
the engine's verdict, the reference and the simulator's queues all agree. `make agree` tries thousands.
"""

import os

import pytest
from hypothesis import given, settings

from syncheck.hb.clock import HOST, TICK
from syncheck.witness.schedule import Hold, Holds, LaunchId, RandomPriorities
from tests.agreement.symbolic import Run, every_choice, until_first_race
from tests.properties import ops as p
from tests.properties.programs import programs

N_PROGRAMS = int(os.environ.get("SYNCHECK_AGREE", "300"))
SEEDS = range(6)
FEW_LAUNCHES = 6
MAX_CHOICES = 300


def launches(ops):
    counts = {}
    for op in ops:
        if isinstance(op, p.Launch):
            counts[op.stream] = counts.get(op.stream, 0) + 1
            yield LaunchId(op.stream, counts[op.stream])


def runs(ops):
    """Yield runs under other schedules: each launch held back, random priorities, and every choice if there are few."""
    found = list(launches(ops))
    for launch in found:
        yield Run(ops, Holds((Hold(launch),)))
    for seed in SEEDS:
        yield Run(ops, RandomPriorities(seed))
    if len(found) <= FEW_LAUNCHES:
        yield from every_choice(lambda policy: Run(ops, policy), MAX_CHOICES)


@pytest.mark.slow
@settings(max_examples=N_PROGRAMS)
@given(program=programs())
def test_race_free_programs_have_one_result_and_races_have_two_orders(program):
    ops, races = until_first_race(program.ops)
    free = ops[:-1] if races else ops
    usual = Run(free, Holds(()))
    for other in runs(free):
        assert other.outcome == usual.outcome
    for race in races:
        check_two_orders(ops, race)


def check_two_orders(ops, race):
    """Check that holding back the earlier access of a reported race makes the later one run first."""
    earlier = LaunchId(race.prior.actor, race.prior.epoch // TICK)
    later = LaunchId(race.current.actor, race.current.epoch // TICK) if race.current.actor != HOST else len(ops) - 1
    usual = Run(ops, Holds(())).executed
    other = Run(ops, Holds((Hold(earlier, later if race.current.actor != HOST else None),))).executed
    assert usual.index(earlier) < usual.index(later)
    assert other.index(later) < other.index(earlier)
