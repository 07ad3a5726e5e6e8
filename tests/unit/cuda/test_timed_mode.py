"""The dispatch mode that also measures operators."""

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from syncheck.cuda.timed_mode import TimedMode
from tests.unit.conftest import watched_gpu


class Timing:
    """Records measurements, and how many launches were logged between begin and end."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.measured = []
        self.wanted = True
        self.is_over = False

    def begin(self, dispatch, args, kwargs):
        self.launched = len(self.gpu.monitor.named("launch"))
        self.given = args, kwargs
        return object() if self.wanted else None

    def end(self, interval, name):
        self.measured.append((name, len(self.gpu.monitor.named("launch")) - self.launched))


@pytest.fixture
def timing(on_cpu):
    with watched_gpu(on_cpu, lambda: None) as gpu:
        mode = _get_current_dispatch_mode()
        assert isinstance(mode, TimedMode)
        mode.timing = Timing(gpu)
        yield mode.timing


def test_an_operator_runs_and_is_logged_between_begin_and_end(timing):
    assert torch.ones(2).add_(1).tolist() == [2, 2]
    assert timing.measured[:2] == [("aten::ones", 1), ("aten::add_", 1)]


def test_begin_receives_the_arguments_of_the_call(timing):
    torch.ones(2, dtype=torch.float64)
    args, kwargs = timing.given
    assert args == ([2],)
    assert kwargs["dtype"] is torch.float64
    x = torch.ones(2)
    x.neg_()
    assert timing.given == ((x,), {})


def test_an_unmeasured_operator_still_runs(timing):
    timing.wanted = False
    assert torch.ones(2).tolist() == [1, 1]
    assert timing.measured == []


def test_begin_is_not_called_once_timing_is_over(timing):
    timing.is_over = True
    timing.begin = None
    assert torch.ones(2).tolist() == [1, 1]
    assert timing.measured == []


def test_a_failing_operator_has_no_end(timing):
    x = torch.ones(2, 3)
    timing.measured.clear()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.mm(x, x)
    assert timing.measured == []
