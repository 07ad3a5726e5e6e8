"""All streams of the program, by device and handle."""

import threading
from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import NOT_SOLE, Streams
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable


class Monitor:
    def __init__(self):
        self.calls = []

    def stream(self, *args, **kwargs):
        self.calls.append(("stream", *args))

    def incomplete(self, reason):
        self.calls.append(("incomplete", reason))


@pytest.fixture
def streams(on_cpu):
    monitor = Monitor()
    made = Streams(Reporter(monitor, SiteTable(), lambda _: None, NewFindings()))
    made.monitor = monitor
    return made


def test_a_stream_is_announced_when_first_seen(streams):
    default, side = streams.of(0, 0), streams.of(0, 7)
    assert streams.of(0, 7) == side != default
    assert [call[1:4] for call in streams.monitor.calls] == [(default, 0, 0), (side, 0, 7)]
    assert (streams.device_of(side), streams.handle_of(side)) == (0, 7)
    assert streams.default_stream(0) == default


def test_the_legacy_handle_is_the_default_stream(streams):
    assert streams.of(0, 1) == streams.of(0, 0)


def test_the_per_thread_stream_differs_between_threads(streams):
    mine, others = streams.of(0, 2), []
    thread = threading.Thread(target=lambda: others.append(streams.of(0, 2)))
    thread.start()
    thread.join()
    assert streams.of(0, 2) == mine != others[0]


def test_a_single_stream_is_tracked_until_another_appears(streams):
    several = []
    streams.on_multiple_streams.append(lambda: several.append(1))
    default = streams.of(0, 0)
    assert streams.used(default)
    assert streams.sole_stream == default
    side = streams.of(0, 7)
    assert streams.sole_stream == NOT_SOLE
    assert not streams.used(side)
    assert not streams.used(default)
    assert several == [1]


def test_the_first_side_stream_is_announced_once(streams):
    seen = []
    streams.on_side_stream.append(lambda: seen.append(1))
    for handle in (0, 7, 8):
        streams.of(0, handle)
    assert seen == [1]
    assert streams.saw_side_stream


def stream_object(device="cuda:0", **attributes):
    device = torch.device(device)
    return SimpleNamespace(device=device, device_index=device.index, device_type=1, stream_id=3, **attributes)


def test_a_generic_stream_object_maps_to_its_stream(streams, monkeypatch):
    side = streams.of(0, 7)
    monkeypatch.setattr(devices.cuda, "Stream", lambda **_: SimpleNamespace(cuda_stream=7))
    assert streams.known(stream_object()) == streams.of_object(stream_object()) == side
    assert streams.known(stream_object("cpu")) == 0


def test_a_stream_object_maps_to_its_stream(streams, on_cpu):
    side = streams.of(0, 7)
    assert streams.of_object(SimpleNamespace(cuda_stream=7, device_index=0)) == side
    assert streams.known(stream_object(cuda_stream=7)) == side
    assert streams.known(stream_object(cuda_stream=9)) == 0
    on_cpu.handle = 7
    assert streams.of_object(None) == streams.current(0) == side


def test_streams_beyond_the_limit_share_the_last_stream_of_their_device(streams, monkeypatch):
    monkeypatch.setattr("syncheck.cuda.streams.MAX_STREAMS", 3)
    default, first, other = streams.of(0, 0), streams.of(0, 7), streams.of(1, 0)
    assert [streams.of(0, 8), streams.of(0, 9), streams.of(1, 8), streams.of(0, 8)] == [first, first, other, first]
    assert streams.of(0, 0) == default
    assert streams.monitor.calls[3] == (
        "incomplete",
        "more than 4,095 streams: races between the remaining ones are not found",
    )
