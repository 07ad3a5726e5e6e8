"""Copies between GPUs and host memory: which of them go through a temporary."""

import pytest
import torch

import syncheck
from syncheck.instrument.tensor_facts import is_staged_copy
from syncheck.semantics.copies import CopyEnd, copy_plan

WIDE = torch.empty(4, 8)
CASES = {
    "contiguous": (torch.empty(4, 4), torch.empty(4, 4), False),
    "columns": (WIDE[:, :4], torch.empty(4, 4), True),
    "every second": (WIDE[:, ::2], torch.empty(4, 4), True),
    "rows": (WIDE[1:], torch.empty(3, 8), False),
    "one row of a column": (WIDE[:1, :4], torch.empty(1, 4), False),
    "both transposed": (WIDE.t(), torch.empty(4, 8).t(), False),
    "one transposed": (WIDE.t(), torch.empty(8, 4), True),
    "both transposed, other types": (WIDE.t(), torch.empty(4, 8, dtype=torch.half).t(), True),
    "other type": (WIDE, torch.empty(4, 8, dtype=torch.half), False),
    "the GPU's end is strided": (torch.empty(4, 4), WIDE[:, :4], False),
    "both channels last": (*(torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last) for _ in range(2)), False),
}


@pytest.mark.parametrize(("host", "gpu", "staged"), CASES.values(), ids=CASES)
def test_what_does_not_lie_side_by_side_goes_through_a_temporary(host, gpu, staged):
    assert is_staged_copy(host, gpu, to_host=True) == staged
    assert is_staged_copy(gpu, host, to_host=False) == staged


def test_a_source_that_is_repeated_goes_through_a_temporary():
    assert is_staged_copy(torch.empty(4, 8), torch.empty(8), to_host=False)
    assert not is_staged_copy(torch.empty(1, 8), torch.empty(8), to_host=False)
    assert not is_staged_copy(torch.empty(4, 8), torch.empty(8), to_host=True)


def test_a_temporary_makes_the_host_wait_for_a_copy_to_it():
    plan = copy_plan(CopyEnd(-1, is_pinned=True, is_staged=True), CopyEnd(0), non_blocking=True)
    assert (plan.host_waits, plan.host_writes_target, plan.uses_host_memory) == (True, True, False)


def test_a_temporary_lets_the_host_change_the_source():
    plan = copy_plan(CopyEnd(0), CopyEnd(-1, is_pinned=True, is_staged=True), non_blocking=True)
    assert (plan.host_waits, plan.host_reads_source, plan.uses_host_memory) == (False, True, False)
    assert not plan.overlaps_nothing  # the source is pinned


def test_the_host_writes_columns_that_another_stream_may_still_be_reading():
    with syncheck.check(backend="sim") as report:
        side = torch.cuda.Stream()
        cache = torch.zeros(64, 128, pin_memory=True)
        with torch.cuda.stream(side):
            sent = cache.to("cuda", non_blocking=True)
        cache[:, :64].copy_(torch.ones(64, 64, device="cuda"), non_blocking=True)
        torch.cuda.synchronize()
        del sent
    assert report.codes == ("SYN302",)
