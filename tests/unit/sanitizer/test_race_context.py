"""Inputs of the decision table."""

import pytest

from syncheck.hb.cells import AccessRecord
from syncheck.hb.clock import HOST
from syncheck.hb.engine import Race
from syncheck.hb.footprint import dense
from syncheck.sanitizer.labels import Label
from syncheck.sanitizer.messages import Names, StreamInfo, TensorRef
from syncheck.sanitizer.race_context import RaceContext
from syncheck.sanitizer.sync_history import SyncHistory
from tests.unit.sanitizer.program import new_engine


def context(*, prior=None, late=2, is_write=True):
    names = Names()
    names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(1, 7, 5), 3: StreamInfo(1, 8, 0)}
    early = AccessRecord(1, 4097, 1, dense(0, 16), is_write)
    race = Race(9, early, AccessRecord(late, 4098, 2, dense(0, 16), is_write=False))
    label = prior or Label(10, "aten::mul_")
    return RaceContext(
        race,
        label,
        Label(20, "aten::sum"),
        TensorRef(9, 0),
        new_engine(3),
        SyncHistory(lambda host, moment: True),
        names,
    )


def test_the_host_may_complete_a_race():
    assert context(late=HOST).is_host
    assert not context().is_host


def test_streams_are_identified_by_device_and_maker():
    made = context()
    assert [made.device(stream) for stream in (1, 2, 3)] == [0, 1, 1]
    assert [made.is_internal(stream) for stream in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize(
    ("prior", "is_write", "text"),
    [
        (None, True, "the default stream of cuda:0 wrote it here (mul_)"),
        (None, False, "the default stream of cuda:0 read it here (mul_)"),
        (Label(10, "graph replay", is_replay=True), True, "the default stream of cuda:0 wrote it here (the replay)"),
    ],
)
def test_the_earlier_access_is_described(prior, is_write, text):
    made = context(prior=prior, is_write=is_write)
    assert made.names.format(made.access_text) == text
