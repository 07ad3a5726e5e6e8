"""Callbacks that arrive while an operator runs."""

import sys

import pytest

from syncheck.cuda.callback_order import Callback, Kind, PendingCallbacks, work_index, working_stream


def record(stream, event=1):
    return Callback(Kind.RECORD, event, stream)


def wait(stream, event=1):
    return Callback(Kind.WAIT, event, stream)


SYNC = Callback(Kind.SYNC_STREAM, 0, 1)


def test_callbacks_are_kept_per_operator_frame():
    callbacks, frame = PendingCallbacks(), sys._getframe()
    callbacks.keep(frame, SYNC)
    callbacks.keep(frame, record(1))
    assert callbacks.by_frame[id(frame)] == [SYNC, record(1)]
    assert callbacks.count == 2
    callbacks.forget(frame)
    callbacks.forget(frame)
    assert (callbacks.count, callbacks.by_frame) == (0, {})


@pytest.mark.parametrize(
    ("inner", "waits_first", "stream"),
    [
        ([], False, 1),
        ([record(1), wait(2), record(2, 5)], False, 2),
        ([record(2)], False, 2),  # the record shows where it worked
        ([record(2)], True, 1),  # an operator that waits first did not work there
        ([record(1), wait(2)], True, 2),  # one of several operators launched together
        ([wait(2, 7)], False, 1),  # it waits for an earlier record
    ],
)
def test_working_stream_is_the_one_that_waited_and_recorded(inner, waits_first, stream):
    assert working_stream(inner, 1, waits_first=waits_first) == stream


@pytest.mark.parametrize(
    ("inner", "stream", "place"),
    [
        ([wait(1), record(1)], 1, 1),
        ([SYNC, wait(1)], 1, 2),
        ([record(2), SYNC], 1, 1),
        ([record(1), SYNC], 1, 0),
        ([], 1, 0),
    ],
)
def test_work_is_placed_after_waits_and_before_records_and_synchronizations(inner, stream, place):
    assert work_index(inner, stream) == place
