"""Schedules as text, and the policies that apply them."""

import pytest

from syncheck.errors import ConfigError
from syncheck.witness.schedule import Hold, Holds, LaunchId, Schedule

HOLD = Hold(LaunchId(2, 5), LaunchId(1, 9))


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(7),
        Schedule(7, (HOLD,)),
        Schedule(7, (HOLD, Hold(LaunchId(3, 1)))),
        Schedule(7, (Hold(LaunchId(3, 1), rank=12), Hold(LaunchId(2, 5), LaunchId(1, 9), 0))),
        Schedule(0xFFFFFF, seed=17),
    ],
)
def test_a_schedule_round_trips_through_text(schedule):
    assert Schedule.parse(str(schedule)) == schedule


def test_a_schedule_needs_no_quotes_in_a_shell():
    assert str(Schedule(0x5F3A21, (HOLD,))).startswith("s1-5f3a21-2.5_1.9-")


@pytest.mark.parametrize("text", ["", "s1", "nonsense", "s1-5f3a21-2.5_1.9-0000", "s1-zz-0-1", "s1-5f3a21-2.5"])
def test_a_damaged_schedule_is_rejected(text):
    with pytest.raises(ConfigError, match="not all of it"):
        Schedule.parse(text)


@pytest.mark.parametrize("position", range(3, 22))
def test_a_changed_character_is_detected(position):
    text = str(Schedule(0x5F3A21, (HOLD,)))
    changed = text[:position] + ("1" if text[position] != "1" else "2") + text[position + 1 :]
    with pytest.raises(ConfigError):
        Schedule.parse(changed)


def test_a_schedule_of_another_version_is_identified():
    with pytest.raises(ConfigError, match="another version"):
        Schedule.parse("s2-5f3a21-0-0000")


def test_a_held_stream_runs_once_the_other_launch_has_run():
    policy = Holds((HOLD,))
    assert policy.may_run(LaunchId(2, 4))
    assert not policy.may_run(LaunchId(2, 5))
    assert policy.may_run(LaunchId(3, 5))
    policy.launch_ran(LaunchId(1, 8))
    assert not policy.may_run(LaunchId(2, 6))
    policy.launch_ran(LaunchId(1, 9))
    assert policy.may_run(LaunchId(2, 5))


def test_a_hold_of_one_rank_does_not_affect_another():
    schedule = Schedule(7, (Hold(LaunchId(2, 5), rank=1),))
    assert [schedule.policy(rank).may_run(LaunchId(2, 5)) for rank in (0, 1)] == [True, False]


def choices(seed, rank=0):
    policy, made = Schedule(0, seed=seed).policy(rank), []
    for number in range(50):
        made += [policy.may_run(LaunchId(stream, number)) for stream in (1, 2, 3)]
        policy.host_submitted()
    return made


def test_a_seed_always_makes_the_same_choices():
    assert choices(3) == choices(3)
    assert choices(3) != choices(4)
    assert {True, False} == set(choices(3))


def test_each_rank_makes_its_own_choices():
    assert choices(3, rank=1) == choices(3, rank=1)
    assert choices(3, rank=1) != choices(3)
