"""Observations recorded during a run on real GPUs."""

import gc

import torch

from syncheck.cuda.observations import Kept, Observations
from syncheck.witness.delay import Delay
from tests.unit.cuda.delayed import delayed_gpu


def test_a_kept_view_can_be_rebuilt_while_its_memory_is_alive():
    x = torch.arange(6.0)
    kept = Kept.of(x.view(2, 3).t()[1:])
    assert kept.tensor().tolist() == [[1, 4], [2, 5]]
    del x
    gc.collect()
    assert kept.tensor() is None


def test_live_tensors_at_the_end_are_recorded_in_allocation_order(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        weights, gone, loss = torch.full((2,), 4.0), torch.ones(3), torch.zeros(1)
        del gone
        final = [values.shown for values in gpu.recorded().final]
        assert final == [("4", "4"), ("0",)]
        del weights, loss


def test_a_tensor_wrapped_by_torch_func_is_recorded_once(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        weights, kept = torch.full((2, 1), 4.0), []
        torch.func.vmap(lambda row: kept.append(row) or row.clone())(weights)
        assert [values.shown for values in gpu.recorded().final] == [("4", "4")]
        kept.clear()


def test_only_the_largest_view_of_a_tensor_is_recorded(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        flat = torch.arange(4.0)
        gc.collect()
        parts = [flat[1:], flat[:3]]
        gc.collect()
        assert [values.shown for values in gpu.recorded().final] == [("0", "1", "2", "3")]
        del parts


def test_nothing_is_recorded_unless_requested(tmp_path):
    seen = Observations(None, None, None, None)
    seen.record_host_read(torch.ones(1), 0)
    seen.finish(None, None, None)
    assert seen.record.host == []


def test_the_end_of_a_run_is_recorded_once(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        gpu.recorded()
        assert gpu.recorded().has_ended
        assert gpu.work.n_settled == 1
