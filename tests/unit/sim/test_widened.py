"""Operators that torch implements for a dtype on GPUs but not on the CPU."""

import pytest
import torch

from syncheck.instrument.plan import plan_of
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.widened import in_wider_type

half, ints = torch.float16, torch.int64
CASES = {
    "counts of integers": lambda: torch.histc(torch.tensor([0, 1, 1, 3], device="cuda"), 4, 0, 3),
    "a mean": lambda: torch.nn.functional.avg_pool3d(torch.ones(1, 1, 2, 2, 2, device="cuda", dtype=half), 2),
    "decimals": lambda: torch.tensor([1.26], device="cuda", dtype=half).round(decimals=1),
    "an own result": lambda: torch.tensor([1.26], device="cuda", dtype=half).round_(decimals=1),
    "a special function": lambda: torch.special.polygamma(1, torch.tensor([1.0], device="cuda", dtype=half)),
}
EXPECTED = {
    "counts of integers": (ints, [1, 2, 0, 1]),
    "a mean": (half, [1]),
    "decimals": (half, [1.3]),
    "an own result": (half, [1.3]),
    "a special function": (half, [1.645]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_computed_in_a_wider_dtype_and_converted_back(gpu, name):
    result = CASES[name]()
    dtype, values = EXPECTED[name]
    assert (result.dtype, result.device) == (dtype, torch.device("cuda:0"))
    found = result.cpu().flatten().tolist()
    assert found == pytest.approx(values, abs=2e-3)


def test_in_place_and_out_variants_write_their_tensor(gpu):
    x = torch.tensor([1.26, 2.74], device="cuda", dtype=half)
    y = x
    x.round_(decimals=1)
    assert y.tolist() == pytest.approx([1.3, 2.74], abs=0.1)
    out = torch.empty(4, dtype=ints, device="cuda")
    torch.histc(torch.tensor([0, 1, 1, 3], device="cuda"), 4, 0, 3, out=out)
    assert out.tolist() == [1, 2, 0, 1]


def test_without_a_wider_dtype_there_is_no_result():
    func = torch.ops.aten.sin.default
    with pytest.raises(NotImplementedError):
        in_wider_type(func, plan_of(func), (torch.ones(2),), {})


def test_an_operator_without_a_gpu_kernel_is_not_simulated(gpu):
    with pytest.raises(NotSimulatedError, match="aten::gelu"):
        torch.nn.functional.gelu(torch.tensor([1, 2], device="cuda"))


def test_other_errors_are_torchs_own(gpu):
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        torch.ones(2, device="cuda") @ torch.ones(3, device="cuda")
