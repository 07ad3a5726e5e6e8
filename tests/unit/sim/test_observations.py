"""Observations recorded during a run under a schedule."""

from syncheck.sim.null_monitor import NoSites
from syncheck.sim.observations import Observations
from syncheck.witness.record import Request
from syncheck.witness.schedule import LaunchId, Pair


def test_nothing_is_watched_without_a_request():
    assert not Observations(None, NoSites()).watched


def test_a_host_access_is_not_a_watched_launch():
    pair = Pair(LaunchId(1, 2), LaunchId(0, 0))
    assert Observations(Request("", (pair,)), NoSites()).watched == {LaunchId(1, 2)}
