"""Copies: the stream that runs one, and who waits."""

import pytest

from syncheck.semantics.copies import HOST_DEVICE, CopyEnd, copy_plan, is_non_blocking

PAGEABLE, PINNED = CopyEnd(HOST_DEVICE), CopyEnd(HOST_DEVICE, is_pinned=True)


@pytest.mark.parametrize(
    ("source", "non_blocking", "waits", "stages", "in_flight"),
    [
        (PAGEABLE, False, True, False, False),
        (PAGEABLE, True, False, True, False),
        (PINNED, False, True, False, True),
        (PINNED, True, False, False, True),
    ],
)
def test_a_blocking_copy_to_a_device_makes_the_host_wait(source, non_blocking, waits, stages, in_flight):
    plan = copy_plan(CopyEnd(1), source, non_blocking=non_blocking)
    assert (plan.device, plan.other, plan.is_peer) == (1, HOST_DEVICE, False)
    assert (plan.host_waits, plan.overlaps_nothing, plan.uses_host_memory) == (waits, stages, in_flight)
    assert plan.host_reads_source is (source is PAGEABLE)


@pytest.mark.parametrize(
    ("target", "non_blocking", "waits"),
    [(PAGEABLE, False, True), (PAGEABLE, True, True), (PINNED, False, True), (PINNED, True, False)],
)
def test_a_copy_from_a_device_is_asynchronous_only_into_pinned_memory(target, non_blocking, waits):
    plan = copy_plan(target, CopyEnd(1), non_blocking=non_blocking)
    assert (plan.device, plan.other, plan.host_waits) == (1, HOST_DEVICE, waits)
    assert plan.uses_host_memory is (target is PINNED)
    assert not plan.overlaps_nothing


@pytest.mark.parametrize("non_blocking", [True, False])
def test_a_peer_copy_runs_on_the_sources_stream_and_joins_both_streams(non_blocking):
    plan = copy_plan(CopyEnd(2), CopyEnd(1), non_blocking=non_blocking)
    assert (plan.device, plan.other, plan.is_peer, plan.host_waits) == (1, 2, True, False)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [((1, 2), {}, False), ((1, 2, True), {}, True), ((1, 2), {"non_blocking": True}, True)],
)
def test_non_blocking_is_read_from_arguments(args, kwargs, expected):
    assert is_non_blocking(args, kwargs) is expected
