"""Collectives of torch.distributed, by their names."""

import pytest

from tests.unit.lint.program import calls_of

X = "x = torch.ones(4, device='cuda')\n"
W = X + "w = dist.all_reduce(x, async_op=True)\n"


@pytest.mark.parametrize(
    "imported",
    [
        "import torch.distributed as d\nd.",
        "from torch import distributed\ndistributed.",
        "from torch.distributed import all_reduce\n",
        "torch.distributed.distributed_c10d.",
    ],
)
def test_a_collective_is_known_by_any_of_its_names(imported):
    assert calls_of(f"{imported}all_reduce(x)", X) == ["launch cuda:0 c10d::allreduce_ w1"]


@pytest.mark.parametrize("name", ["wait", "synchronize"])
def test_a_handle_is_waited_for(name):
    assert calls_of(f"w.{name}()", W) == ["wait cuda:0 for e1 (torch)"]


def test_what_else_is_done_with_a_handle_may_wait_for_it():
    assert calls_of("w.get_future()", W) == ["sync e1", "all complete"]


def test_functions_that_are_no_collectives_are_unknown_code():
    assert calls_of("dist.init_process_group()", X) == []
    assert calls_of("dist.monitored_barrier()", X) == ["all complete"]


BATCH = "works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.irecv, y, 0)])\n"


def test_a_batch_starts_what_its_operations_say():
    calls = calls_of(BATCH, X + "y = torch.ones(4, device='cuda')\n")
    assert [call for call in calls if call.startswith("launch")] == [
        "launch s1 c10d::send r1",
        "launch s1 c10d::recv_ w2",
    ]


def test_of_operations_that_are_not_known_only_the_handle_that_is_dropped_is():
    assert calls_of("works = dist.batch_isend_irecv(f())") == []
    assert calls_of("works.append(dist.batch_isend_irecv(f()))") == []
    assert calls_of("dist.batch_isend_irecv(f())") != []
