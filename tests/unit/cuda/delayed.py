"""A stand-in for a GPU with one delayed launch: streams have clocks, and sleeps advance them."""

from collections import defaultdict
from contextlib import contextmanager, nullcontext

import torch

from syncheck.cuda import backend
from syncheck.instrument.torch_internals import disable_dispatch_modes
from syncheck.witness import record
from syncheck.witness.record import Request
from tests.unit.conftest import watched_gpu


class Events:
    """Events with times in milliseconds: each record is one millisecond after the previous one on any stream."""

    def __init__(self, delays):
        self._delays = delays
        self._times = {}
        self.now = 0

    def make(self, device):
        self._times[len(self._times) + 1] = 0
        return len(self._times)

    def record(self, event, device, handle):
        self.now += 1
        self._times[event] = self.now + self._delays[handle]
        return True

    def is_complete(self, event):
        return self._times[event] <= self.now

    def nanoseconds(self, start, end):
        return round((self._times[end] - self._times[start]) * 1e6)


class Work:
    """See `syncheck.cuda.injected_work.InjectedWork`.

    Attributes:
        sleeps: (handle, seconds) of each sleep.
        overwritten: (bytes, handle, byte) of each block.
    """

    def __init__(self, reporter, events):
        self.delays = defaultdict(float)
        self.events = Events(self.delays)
        self.sleeps = []
        self.overwritten = []
        self.n_settled = 0
        self.made_current = []

    @contextmanager
    def hidden(self):
        with disable_dispatch_modes():
            yield

    def on(self, device, handle):
        self.made_current.append(handle)
        return nullcontext()

    def sleep(self, device, handle, seconds):
        self.sleeps.append((handle, seconds))
        self.delays[handle] += seconds * 1000

    def fork(self, device):
        return 99

    def copies(self, tensors, device, handle):
        return [self.on_host(tensor) for tensor in tensors]

    def overwrite(self, address, n_bytes, device, handle, byte):
        self.overwritten.append((n_bytes, handle, byte))

    def synchronize(self):
        self.n_settled += 1

    def on_host(self, tensor):
        with self.hidden():
            return tensor.detach().clone()


@contextmanager
def delayed_gpu(current, monkeypatch, folder, delay, *pairs):
    """Watch the stand-in with a delay; `recorded()` of the result ends the run and returns its record."""
    path = folder / "record.json"
    monkeypatch.setenv(record.REQUEST, Request(str(path), pairs).as_variable())
    monkeypatch.setattr(backend, "InjectedWork", Work)
    monkeypatch.setattr(backend, "DriverEvents", lambda: None)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: None)
    with watched_gpu(current, delay=delay) as gpu:
        gpu.work = gpu.cuda.delays._work

        def recorded():
            with disable_dispatch_modes():
                gpu.cuda.delays.finish()
                return record.read(path)

        gpu.recorded = recorded
        yield gpu
