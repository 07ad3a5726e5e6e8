"""GPU work that a confirmation run does itself; parts that need a driver are tested by `pytest -m gpu`."""

import torch

from syncheck.cuda import devices
from syncheck.cuda.injected_work import InjectedWork


def test_injected_work_is_invisible_to_the_check(gpu):
    work = InjectedWork(gpu.cuda.reporter, None)
    before = len(gpu.monitor.named("launch"))
    with work.hidden():
        torch.ones(3).add_(1)
    assert len(gpu.monitor.named("launch")) == before
    assert gpu.cuda.is_checking


def test_values_are_copied_to_the_host(gpu):
    x = torch.ones(3)
    copy = InjectedWork(gpu.cuda.reporter, None).on_host(x)
    assert copy.tolist() == [1, 1, 1]


def test_settle_ignores_uninitialized_gpus(gpu, monkeypatch):
    monkeypatch.setattr(devices.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: 1 / 0)
    InjectedWork(gpu.cuda.reporter, None).synchronize()
