"""What is recorded of a run on real GPUs."""

import gc

import torch

from syncheck.cuda.observations import Kept, Observations
from syncheck.witness.delay import Delay
from tests.unit.cuda.delayed import delayed_gpu


def test_a_view_can_be_seen_again_while_its_memory_is_there():
    x = torch.arange(6.0)
    kept = Kept.of(x.view(2, 3).t()[1:])
    assert kept.tensor().tolist() == [[1, 4], [2, 5]]
    del x
    gc.collect()
    assert kept.tensor() is None


def test_what_the_program_still_has_at_its_end_is_recorded_in_the_order_of_allocation(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        weights, gone, loss = torch.full((2,), 4.0), torch.ones(3), torch.zeros(1)
        del gone
        final = [values.shown for values in gpu.recorded().final]
        assert final == [("4", "4"), ("0",)]
        del weights, loss


def test_what_torch_func_wraps_is_recorded_once(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        weights, kept = torch.full((2, 1), 4.0), []
        torch.func.vmap(lambda row: kept.append(row) or row.clone())(weights)
        assert [values.shown for values in gpu.recorded().final] == [("4", "4")]
        kept.clear()


def test_of_the_views_of_a_tensor_the_largest_is_recorded(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        flat = torch.arange(4.0)
        gc.collect()
        parts = [flat[1:], flat[:3]]
        gc.collect()
        assert [values.shown for values in gpu.recorded().final] == [("0", "1", "2", "3")]
        del parts


def test_nothing_is_recorded_unless_it_is_asked_for(tmp_path):
    seen = Observations(None, None, None, None)
    seen.record_host_read(torch.ones(1), 0)
    seen.finish(None, None, None)
    assert seen.record.host == []


def test_an_end_is_recorded_once(on_cpu, monkeypatch, tmp_path):
    with delayed_gpu(on_cpu, monkeypatch, tmp_path, Delay(0)) as gpu:
        gpu.recorded()
        assert gpu.recorded().has_ended
        assert gpu.work.n_settled == 1
