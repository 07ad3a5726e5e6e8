"""Hooks on streams, contexts and functions of `torch.cuda`."""

from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.hooks import Hooks
from syncheck.cuda.open_classes import _open_class
from syncheck.instrument.patching import Patches


class Stream:
    def __init__(self, handle, device=0):
        self.cuda_stream, self.device_index = handle, device


@pytest.fixture
def hooks(gpu, monkeypatch):
    monkeypatch.setattr(devices, "current_device", lambda: 0)
    cuda, patches = gpu.cuda, Patches()
    yield Hooks(
        cuda.reporter, cuda.streams, cuda.threads, cuda.memory, cuda.events, cuda.copies, cuda.launches, patches
    )
    patches.undo()


def test_wait_stream_reports_how_both_streams_were_obtained(gpu, hooks):
    side, current = Stream(7), hooks._with_origin(lambda: Stream(0), "current_stream")()
    hooks._wait_stream(lambda *args: None)(side, current)
    (call,) = gpu.monitor.named("wait_stream")
    assert call[1:3] == (gpu.cuda.streams.of(0, 7), 1)
    assert call[4] == ("", "current_stream")


@pytest.mark.parametrize("done", [True, False])
def test_only_a_successful_query_synchronizes_the_host(gpu, hooks, done):
    assert hooks._query(lambda stream: done)(Stream(0)) is done
    assert len(gpu.monitor.named("sync_stream")) == done


def test_cuda_sleep_is_reported_as_a_launch(gpu, hooks):
    hooks._sleep(lambda cycles: None)(100)
    assert gpu.monitor.named("launch")[0][2:4] == ("torch.cuda._sleep", ())
    assert gpu.cuda.threads.state.implicit_device
    gpu.cuda.threads.state.implicit_device = False


def test_entered_stream_contexts_are_tracked_on_multiple_gpus(gpu, hooks):
    threads, context = gpu.cuda.threads, SimpleNamespace(stream=Stream(7))
    enter, leave = hooks._enter(lambda _: "entered", lambda owner: owner.stream), hooks._exit(lambda *_: None)
    enter(context)
    assert threads.state.contexts == []  # on one GPU a stream context applies to everything
    threads.n_devices = 2
    assert enter(context) == "entered"
    assert [stream for stream, _ in threads.state.contexts] == [gpu.cuda.streams.of(0, 7)]
    assert threads.n_checked_contexts == 1
    leave(context, None, None, None)
    assert (threads.state.contexts, threads.n_checked_contexts) == ([], 0)


def test_device_selections_and_queries_are_recorded(gpu, hooks):
    state = gpu.cuda.threads.state
    assert hooks._set_explicitly(lambda index: index)(3) == 3
    assert state.set_explicitly
    assert hooks._current_device(lambda: 1)() == 1
    assert state.implicit_device
    state.implicit_device = state.set_explicitly = False


@pytest.mark.parametrize(
    ("name", "args", "implicit"),
    [
        ("cuda", (), True),
        ("cuda", (1,), False),
        ("to", ("cuda",), True),
        ("to", ("cuda:1",), False),
        ("to", (torch.half,), False),
    ],
)
def test_use_of_a_device_without_an_index_is_recorded(gpu, hooks, name, args, implicit):
    state = gpu.cuda.threads.state
    state.implicit_device = False
    hooks._move(lambda tensor, *_, **__: tensor, name)(torch.ones(1), *args)
    assert state.implicit_device is implicit
    state.implicit_device = False


def test_suppressed_calls_go_straight_to_torch(gpu, hooks):
    with gpu.cuda.reporter.suppressed():
        hooks._wait_stream(lambda *args: None)(Stream(7), Stream(0))
        hooks._sleep(lambda cycles: None)(100)
    assert gpu.monitor.named("wait_stream") == gpu.monitor.named("launch") == []


def test_a_c_class_is_opened_through_a_subclass():
    opened = _open_class(torch.Stream)
    assert issubclass(opened, torch.Stream)
    assert issubclass(torch.Stream, opened)
    assert (opened.__name__, opened.__module__) == ("Stream", "torch")
    opened.new_attribute = 1
    assert not hasattr(torch.Stream, "new_attribute")
    del opened.new_attribute


def test_memory_released_by_resizing_a_storage_is_freed(gpu, hooks, monkeypatch):
    monkeypatch.setattr(torch.UntypedStorage, "is_cuda", True)
    x = torch.ones(4)
    hooks._hook_resize()
    x.untyped_storage().resize_(100000)
    assert [call[1] for call in gpu.monitor.named("free")] == [1]
    hooks._patches.undo()
