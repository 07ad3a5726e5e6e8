"""Textual form of delays."""

import pytest

from syncheck.errors import ConfigError
from syncheck.witness.delay import Delay, parse
from syncheck.witness.schedule import LaunchId, Schedule, with_checksum

DELAYS = [
    Delay(7),
    Delay(0xFFFFFF, LaunchId(3, 5), 700),
    Delay(7, LaunchId(3, 5), 20_000, LaunchId(1, 9)),
    Delay(7, LaunchId(3, 5), 200, LaunchId(1, 9), is_repeated=True),
]


@pytest.mark.parametrize("delay", DELAYS, ids=str)
def test_a_text_round_trips_to_its_delay(delay):
    assert Delay.parse(str(delay)) == delay
    assert parse(str(delay)) == delay


def test_parse_also_accepts_schedules_of_simulated_gpus():
    assert parse(str(Schedule(7, seed=3))) == Schedule(7, seed=3)


@pytest.mark.parametrize("damaged", [str(DELAYS[1])[:-1], str(DELAYS[1]).replace("3.5", "3.6"), "d1-"])
def test_a_damaged_text_is_rejected(damaged):
    with pytest.raises(ConfigError, match="not all of it"):
        parse(damaged)


def test_a_text_with_a_valid_checksum_but_no_delay_is_rejected():
    with pytest.raises(ConfigError, match="not all of it"):
        parse(with_checksum("d1-000007-what"))


def test_a_delay_is_described_in_words():
    assert DELAYS[1].description == "0.7 s"
    assert DELAYS[3].description == "0.2 s, repeated before each later call from the same line"
