"""Autocast on simulated GPUs: which casts are cached between operators, and which operators raise an error."""

import pytest
import torch

import syncheck


def two_streams_share_a_weight(**options):
    weight = torch.ones(4, 4, device="cuda", requires_grad=True)
    x = torch.ones(2, 4, device="cuda")
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(main)
    with torch.autocast("cuda", **options):
        with torch.cuda.stream(side):
            first = x @ weight
        second = x @ weight
    torch.cuda.synchronize()
    del first, second


def test_a_weight_cast_on_one_stream_and_used_on_another_is_reported():
    with syncheck.check(backend="sim") as report:
        two_streams_share_a_weight()
    assert "SYN101" in report.codes


def test_each_stream_casts_for_itself_without_the_cache():
    with syncheck.check(backend="sim") as report:
        two_streams_share_a_weight(cache_enabled=False)
    assert report.codes == ()


def test_a_weight_is_cast_once_per_region():
    with syncheck.check(backend="sim") as report:
        weight, x = torch.ones(4, 4, device="cuda", requires_grad=True), torch.ones(2, 4, device="cuda").half()
        counts = [casts_in_a_region(lambda: x @ weight) for _ in range(2)]
    assert report.codes == ()
    assert counts == [1, 1]


def casts_in_a_region(product):
    calls = []
    original = torch.Tensor.to
    with torch.autocast("cuda"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "to", lambda *args, **kwargs: calls.append(1) or original(*args, **kwargs))
        assert product().dtype == torch.float16
        with torch.no_grad():
            product()
        assert product().requires_grad
    return len(calls)


def test_gradients_of_all_uses_reach_the_weight():
    with syncheck.check(backend="sim"):
        weight, x = torch.ones(4, 4, device="cuda", requires_grad=True), torch.ones(2, 4, device="cuda")
        with torch.autocast("cuda"):
            ((x @ weight).sum() + (x @ weight).sum()).backward()
        assert weight.grad.dtype == torch.float32
        assert weight.grad.tolist() == [[4.0] * 4] * 4


def test_binary_cross_entropy_is_rejected_under_autocast():
    with syncheck.check(backend="sim"):
        p = torch.full((4,), 0.5, device="cuda")
        with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
            torch.nn.functional.binary_cross_entropy(p, p)
        assert torch.nn.functional.binary_cross_entropy(p, p).is_cuda
