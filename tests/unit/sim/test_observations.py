"""What is recorded of a run under a schedule."""

import torch

from syncheck.sim.null_monitor import NoSites
from syncheck.sim.observations import Observations, values_of
from syncheck.witness.record import Request
from syncheck.witness.schedule import LaunchId, Pair


def test_equal_tensors_have_equal_values_however_they_lie():
    matrix = torch.arange(6.0).view(2, 3)
    assert values_of(matrix.t()) == values_of(matrix.t().contiguous())
    assert values_of(matrix) != values_of(matrix.t())


def test_values_past_those_that_are_shown_count():
    one, other = torch.zeros(10_000), torch.zeros(10_000)
    other[-1] = 1
    assert values_of(one).shown == values_of(other).shown
    assert values_of(one).checksum != values_of(other).checksum


def test_there_may_be_no_values():
    assert values_of(torch.empty(0)).count == 0


def test_nothing_is_watched_without_a_request():
    assert not Observations(None, NoSites()).watched


def test_a_host_access_is_no_launch():
    pair = Pair(LaunchId(1, 2), LaunchId(0, 0))
    assert Observations(Request("", (pair,)), NoSites()).watched == {LaunchId(1, 2)}
