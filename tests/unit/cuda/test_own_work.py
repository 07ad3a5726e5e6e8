"""What a proof does on GPUs by itself; what needs a driver is tested by `pytest -m gpu`."""

import torch

from syncheck.cuda import devices
from syncheck.cuda.own_work import OwnWork


def test_the_check_does_not_see_it(gpu):
    work = OwnWork(gpu.cuda.reporter, None)
    before = len(gpu.monitor.named("launch"))
    with work.hidden():
        torch.ones(3).add_(1)
    assert len(gpu.monitor.named("launch")) == before
    assert gpu.cuda.is_checking


def test_values_can_be_had_on_the_host(gpu):
    x = torch.ones(3)
    copy = OwnWork(gpu.cuda.reporter, None).on_host(x)
    assert copy.tolist() == [1, 1, 1]


def test_gpus_that_are_not_in_use_are_not_waited_for(gpu, monkeypatch):
    monkeypatch.setattr(devices.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: 1 / 0)
    OwnWork(gpu.cuda.reporter, None).synchronize()
