"""`torch.cuda.Stream` and `torch.Stream` on virtual devices."""

import pickle

import pytest
import torch


def test_streams_with_the_same_handle_are_equal(gpus):
    s = torch.cuda.Stream(device=1)
    same = torch.cuda.ExternalStream(s.cuda_stream, device=1)
    assert s == same
    assert hash(s) == hash(same)
    assert s != torch.cuda.Stream(device=1)
    assert s.device == torch.device("cuda", 1)
    assert torch.Stream(stream_id=s.stream_id, device_index=1, device_type=s.device_type) == s
    assert f"{s.cuda_stream:#x}" in repr(s)
    with pytest.raises(TypeError):
        pickle.dumps(s)


def test_each_priority_has_its_own_streams(gpu):
    assert torch.cuda.Stream.priority_range() == (0, -3)
    made = [torch.cuda.Stream(priority=priority) for priority in (0, -1, -2, -3, -9)]
    assert [stream.priority for stream in made] == [0, -1, -2, -3, -3]
    assert len({stream.cuda_stream for stream in made}) == len(made)
    assert torch.cuda.current_stream().priority == 0
    with pytest.raises(RuntimeError, match="priority to be less than or equal to 0, got 1"):
        torch.cuda.Stream(priority=1)


def test_waits_report_how_the_streams_were_obtained(gpu):
    s, e = torch.cuda.Stream(), torch.cuda.Event()
    with gpu.calling() as calls:
        s.wait_stream(torch.cuda.current_stream())
        torch.cuda.default_stream().wait_stream(s)
        s.record_event(e)
        s.wait_event(e)
    assert calls == [
        "wait s1 for cuda:0 (current_stream)", "wait cuda:0 for s1 (default_stream)", "record e1 on s1",
        "wait s1 for e1 (stream)",
    ]  # fmt: skip


def test_the_host_waits_for_a_stream(gpu):
    s = torch.cuda.Stream()
    assert gpu.calls_of(s.synchronize) == ["sync s1 (asked for)"]


def test_a_block_makes_a_stream_current(gpus):
    s = torch.cuda.Stream(device=1)
    for context in (torch.cuda.stream(s), s):
        with context:
            assert torch.cuda.current_stream(1) == s
            assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
        assert torch.cuda.current_device() == 0
    with torch.cuda.stream(None):
        assert torch.cuda.current_device() == 0


def test_a_stream_context_is_reentrant(gpu):
    s, t = torch.cuda.Stream(), torch.cuda.Stream()
    with s, t, s:
        assert torch.cuda.current_stream() == s
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_a_new_event_has_the_type_of_the_stream(gpu):
    assert type(torch.cuda.Stream().record_event()) is torch.cuda.Event
    assert type(torch.Stream(device="cuda").record_event()) is torch.Event


def test_a_stream_is_named_after_its_variable(gpu):
    side = torch.cuda.Stream()
    assert gpu.monitor.names["stream", side.ident] == "side"


def test_the_classes_of_streams_and_events_have_torchs_names(gpu):
    streams = (torch.cuda.Stream(), torch.Stream("cuda"), torch.cuda.current_stream())
    assert {type(stream).__name__ for stream in streams} == {"Stream"}
    assert {type(event).__name__ for event in (torch.cuda.Event(), torch.Event("cuda"))} == {"Event"}
