"""Virtual GPUs: devices, streams and the current ones, as integers only."""

import threading

import pytest

from syncheck.hb.ids import Context
from syncheck.sim.null_monitor import NoSites, NullMonitor
from syncheck.sim.virtual_gpus import POOL_SIZE, VirtualGpus


@pytest.fixture
def gpus():
    return VirtualGpus(2, NullMonitor(), NoSites())


def test_each_device_has_a_default_stream(gpus):
    assert [gpus.device_of(gpus.default_stream(device)) for device in (0, 1)] == [0, 1]
    assert gpus.handle_of(gpus.default_stream(1)) == 0
    assert gpus.current_stream(1) == gpus.default_stream(1)


def test_pool_streams_are_reused_round_robin(gpus):
    made = [gpus.new_stream(0, 0) for _ in range(POOL_SIZE + 2)]
    assert len(set(made)) == POOL_SIZE
    assert made[POOL_SIZE:] == made[:2]
    other = gpus.new_stream(0, 0, priority=-1)
    assert other not in made
    assert [gpus.priority_of(stream) for stream in (made[0], other)] == [0, -1]


def test_external_streams_are_identified_by_their_handle(gpus):
    made = gpus.new_stream(1, 0)
    assert gpus.external_stream(1, gpus.handle_of(made), 0) == made
    assert gpus.external_stream(1, 1, 0) == gpus.default_stream(1)  # the legacy default stream
    assert gpus.external_stream(1, 0x99, 0) == gpus.external_stream(1, 0x99, 0) != gpus.external_stream(0, 0x99, 0)


def test_setting_a_stream_also_sets_its_device(gpus):
    changes = []
    gpus.on_change = lambda: changes.append(gpus.current_stream(1))
    side = gpus.new_stream(1, 0)
    gpus.set_stream(side)
    assert (gpus.thread.device, gpus.current_stream(1), changes) == (1, side, [side])
    assert gpus.thread.set_explicitly


def test_a_block_restores_device_and_stream(gpus):
    side = gpus.new_stream(1, 0)
    with gpus.entered(side, 50):
        assert gpus.context(0, 0) == Context(side, 50)
        assert gpus.context(1, 1) is None
        assert gpus.context(0, 1) is None
    assert (gpus.thread.device, gpus.current_stream(1)) == (0, gpus.default_stream(1))
    assert gpus.thread.contexts == []


def test_each_thread_has_its_own_streams(gpus):
    gpus.set_stream(gpus.new_stream(0, 0))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(gpus.current_stream(0)))
    thread.start()
    thread.join()
    assert seen == [gpus.default_stream(0)]


def test_a_thread_that_lost_its_stream_is_reported_once(gpus):
    lost = []
    gpus.monitor = type("M", (), {"lost_context": lambda self, *call: lost.append(call)})()
    gpus.thread.inherited = (0, {0: 9})
    gpus.check_inherited(gpus.default_stream(0), 7)
    gpus.check_inherited(gpus.default_stream(0), 7)
    assert lost == [(gpus.default_stream(0), 9, 7)]
    assert gpus.lost_context() == Context(9, 0)


def test_numbering_starts_at_1(gpus):
    counters = (gpus.next_allocation, gpus.next_event, gpus.next_graph, gpus.next_reading, gpus.next_pool)
    assert [(count(), count()) for count in counters] == [(1, 2)] * 5


def test_streams_beyond_the_limit_share_the_last_stream_of_their_device(gpus, monkeypatch):
    monkeypatch.setattr("syncheck.sim.virtual_gpus.MAX_STREAMS", 3)
    first = gpus.external_stream(0, 0x70, 0)
    assert gpus.external_stream(0, 0x80, 0) == gpus.external_stream(0, 0x90, 0) == first
    assert gpus.external_stream(1, 0x80, 0) == gpus.default_stream(1)
