"""The current device and stream of a thread, and what a new thread loses."""

import pytest

from syncheck.hb.clock import HOST
from syncheck.hb.ids import Context
from syncheck.semantics.threads import ThreadState, context_of, take_lost_stream


class Table:
    """Streams 1 and 2 are the default streams of devices 0 and 1; 3 and 4 are their side streams."""

    def device_of(self, stream):
        return (stream - 1) % 2

    def handle_of(self, stream):
        return 0 if stream < 3 else stream

    def default_stream(self, device):
        return device + 1


TABLE = Table()


@pytest.mark.parametrize(
    ("entered", "devices", "context"),
    [
        ([], (0, 0), None),
        ([(4, 50)], (0, 0), Context(4, 50)),
        ([(4, 50)], (1, 1), None),
        ([(4, 50)], (0, 1), None),  # one of the two is enough
        ([(4, 50), (3, 60)], (0, 0), None),
        ([(3, 60), (4, 50)], (0, 0), None),  # the outer stream applies
        ([(2, 50)], (0, 0), None),  # entering a default stream only selects its device
        ([(4, 50), (4, 60)], (0, 0), Context(4, 60)),
    ],
)
def test_an_entered_stream_of_another_device_does_not_apply(entered, devices, context):
    assert context_of(ThreadState(contexts=entered), *devices, TABLE) == context


def test_a_lost_stream_is_the_context():
    assert context_of(ThreadState(expected_stream=3), 0, 0, TABLE) == Context(3, 0)


@pytest.mark.parametrize(
    ("inherited", "implicit", "stream", "lost"),
    [
        ((0, {0: 3}), False, 1, 3),  # its starter's side stream
        ((0, {0: 3}), False, 3, HOST),  # the thread uses that stream
        ((0, {}), False, 1, HOST),
        ((1, {}), True, 1, 2),  # its starter's device: an index was omitted
        ((1, {1: 4}), True, 1, 4),
        ((1, {}), False, 1, HOST),  # the device was named
        ((1, {0: 3}), False, 1, 3),
        (None, True, 1, HOST),  # the starter was not watched
    ],
)
def test_a_thread_starts_with_the_first_device_and_default_streams(inherited, implicit, stream, lost):
    state = ThreadState(inherited=inherited, implicit_device=implicit)
    assert take_lost_stream(state, stream, TABLE) == lost
    assert state.expected_stream == lost
    assert state.inherited is None


def test_a_thread_that_sets_its_device_or_stream_has_lost_nothing():
    state = ThreadState(inherited=(1, {1: 4}), implicit_device=True, set_explicitly=True)
    assert take_lost_stream(state, 1, TABLE) == HOST


def test_the_inherited_state_is_checked_once():
    state = ThreadState(inherited=(0, {0: 3}))
    take_lost_stream(state, 1, TABLE)
    state.expected_stream = HOST
    assert take_lost_stream(state, 1, TABLE) == HOST
