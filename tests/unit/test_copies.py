"""Copies between GPUs and host memory that go through a temporary."""

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
def test_incompatible_layouts_are_copied_through_a_temporary(host, gpu, staged):
    assert is_staged_copy(host, gpu, to_host=True) == staged
    assert is_staged_copy(gpu, host, to_host=False) == staged


def test_a_broadcast_source_is_copied_through_a_temporary():
    assert is_staged_copy(torch.empty(4, 8), torch.empty(8), to_host=False)
    assert not is_staged_copy(torch.empty(1, 8), torch.empty(8), to_host=False)
    assert not is_staged_copy(torch.empty(4, 8), torch.empty(8), to_host=True)


def test_a_staged_copy_to_the_host_makes_the_host_wait():
    plan = copy_plan(CopyEnd(-1, is_pinned=True, is_staged=True), CopyEnd(0), non_blocking=True)
    assert (plan.host_waits, plan.host_writes_target, plan.uses_host_memory) == (True, True, False)


def test_a_staged_copy_from_the_host_reads_its_source_immediately():
    plan = copy_plan(CopyEnd(0), CopyEnd(-1, is_pinned=True, is_staged=True), non_blocking=True)
    assert (plan.host_waits, plan.host_reads_source, plan.uses_host_memory) == (False, True, False)
    assert not plan.overlaps_nothing  # the source is pinned


def test_a_host_write_to_columns_that_a_stream_may_still_read_is_reported():
    with syncheck.check(backend="sim") as report:
        side = torch.cuda.Stream()
        cache = torch.zeros(64, 128, pin_memory=True)
        with torch.cuda.stream(side):
            sent = cache.to("cuda", non_blocking=True)
        cache[:, :64].copy_(torch.ones(64, 64, device="cuda"), non_blocking=True)
        torch.cuda.synchronize()
        del sent
    assert report.codes == ("SYN302",)
