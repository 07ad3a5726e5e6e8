"""A stand-in for a GPU: the CUDA backend's capture treats CPU tensors as tensors of `cuda:0`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.backend import Cuda
from syncheck.findings import Report
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable
from syncheck.sanitizer.session import Session


class Recorder:
    """Forwards calls to a session and records them; `flush_calls` makes the deferred calls."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.flush_calls: Callable[[], None] = lambda: None
        self.calls: list[tuple[Any, ...]] = []
        self.views: dict[int, tuple[Any, ...]] = {}  # by id

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.session, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, *args, *kwargs.items()))
            result = method(*args, **kwargs)
            if name == "view":
                self.views[result] = args
            return result

        return call

    def named(self, name: str) -> list[tuple[Any, ...]]:
        self.flush_calls()
        return [call for call in self.calls if call[0] == name]

    def launches(self) -> list[tuple[str, list[bool]]]:
        """Return each launch's operator, and for each access whether it writes."""
        return [(call[2], [write for _, _, write in call[3]]) for call in self.named("launch")]


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Treat CPU tensors as tensors of `cuda:0`; `handle` of the result is the current stream's."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: tensor.device.type == "cpu"), raising=False)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0)
    current = SimpleNamespace(handle=0)
    monkeypatch.setattr(devices, "raw_stream", lambda device: current.handle)
    monkeypatch.setattr(devices, "current_device", lambda: 0)
    monkeypatch.setattr(devices, "is_blocking", lambda handle: False)
    return current


@contextmanager
def watched_gpu(
    current: SimpleNamespace, timed_by: Any = None, delay: Any = None, extension: Any = None
) -> Iterator[SimpleNamespace]:
    """Watch the stand-in with its own session for the duration of a block.

    Args:
        current: the handle of the current stream.
        timed_by: as in `Cuda`.
        delay: as in `Cuda`.
        extension: the native recorder, if it is to be used.
    """
    findings = NewFindings()
    session = Session(lambda rule: True, "a stand-in", findings.add)
    monitor = Recorder(session)
    sites = SiteTable()
    cuda = Cuda(monitor, sites, session.note, findings, lambda: None, timed_by, delay=delay, recorder="python")
    cuda.record_natively(extension, "cpu")
    cuda.is_checking = True
    cuda.reporter.call_buffer.condenses = False
    monitor.flush_calls = cuda.flush_calls

    def report() -> Report:
        cuda.flush_calls()
        return session.report(sites)

    with cuda.new_mode() as mode:
        yield SimpleNamespace(mode=mode, cuda=cuda, monitor=monitor, current=current, report=report, sites=sites)
    cuda.flush_calls()
    cuda.is_checking = False
    assert session.report(sites).incomplete == ()


@pytest.fixture
def gpu(on_cpu: SimpleNamespace) -> Iterator[SimpleNamespace]:
    with watched_gpu(on_cpu) as watched:
        yield watched
