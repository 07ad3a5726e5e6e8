"""The dispatch mode of a run in which one launch is delayed."""

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from syncheck.cuda.delayed_mode import DelayedMode
from syncheck.witness.delay import Delay
from syncheck.witness.schedule import LaunchId
from tests.unit.cuda.delayed import delayed_gpu


def test_operators_compute_and_are_logged_as_usual(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        assert isinstance(_get_current_dispatch_mode(), DelayedMode)
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).tolist() == [[2, 2], [2, 2]]
        assert [name for name, _ in gpu.monitor.launches()] == ["aten::ones", "aten::ones", "aten::mm"]


def test_operator_errors_propagate(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0, LaunchId(1, 3), 500)) as gpu:
        a, b = torch.ones(2, 3), torch.ones(2, 3)
        try:
            a @ b
        except RuntimeError as error:
            message = str(error)
        assert "cannot be multiplied" in message
        assert (a + b).sum().item() == 12
        assert gpu.cuda.is_checking


def test_a_collective_with_its_own_stream_is_issued_from_a_sleeping_stream(on_cpu, monkeypatch, tmp_path):
    delay = Delay(0, LaunchId(2, 1), 500, issuer=LaunchId(1, 2))
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, delay) as gpu:
        x = torch.ones(2)
        x.view(2)
        monkeypatch.setattr("syncheck.cuda.delayed_mode.NAMESPACES", {"aten"})
        x.add_(1)  # stands for the collective: the next launch of stream 1 is its second
        assert gpu.work.sleeps == [(99, 0.5)]
        assert gpu.work.made_current == [99]
        assert 99 not in gpu.cuda.streams.by_handle[0]
