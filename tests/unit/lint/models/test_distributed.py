"""Models of torch.distributed's collectives."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
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
def test_a_collective_is_recognized_under_any_of_its_names(imported):
    assert calls_of(f"{imported}all_reduce(x)", X) == ["launch cuda:0 c10d::allreduce_ w1"]


@pytest.mark.parametrize("name", ["wait", "synchronize"])
def test_waiting_for_a_handle_orders_the_current_stream(name):
    assert calls_of(f"w.{name}()", W) == ["wait cuda:0 for e1 (torch)"]


def test_other_methods_of_a_handle_may_wait_for_it():
    assert calls_of("w.get_future()", W) == ["sync e1", "all complete"]


def test_other_distributed_functions_are_unknown_code():
    assert calls_of("dist.init_process_group()", X) == []
    assert calls_of("dist.monitored_barrier()", X) == ["all complete"]


BATCH = "works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.irecv, y, 0)])\n"


def test_a_batch_starts_the_operations_in_its_list():
    calls = calls_of(BATCH, X + "y = torch.ones(4, device='cuda')\n")
    assert [call for call in calls if call.startswith("launch")] == [
        "launch s1 c10d::send r1",
        "launch s1 c10d::recv_ w2",
    ]


@pytest.mark.parametrize(("received", "codes"), [("x", ["SYN601"]), ("y", [])])
def test_a_batch_that_sends_what_it_receives_is_reported(received, codes):
    source = (
        "import torch\nimport torch.distributed as dist\n\ndef f(rank):\n    x, y = torch.empty(2, 4, device='cuda')\n"
        f"    ops = [dist.P2POp(dist.irecv, {received}, rank - 1), dist.P2POp(dist.isend, x, rank + 1)]\n"
        "    for work in dist.batch_isend_irecv(ops):\n        work.wait()\n    return x, y\n"
    )
    assert [finding.rule.code for finding in lint_source("m.py", Text(source)).findings] == codes


@pytest.mark.parametrize(
    ("operations", "n_started"),
    [("f()", 1), ("[g(y) for y in f()]", 1), ("[dist.P2POp(dist.isend, f(), 1), dist.P2POp(dist.irecv, f(), 1)]", 2)],
)
def test_unknown_operations_count_as_sends_that_share_a_handle(operations, n_started):
    calls = calls_of(f"works = dist.batch_isend_irecv({operations})")
    assert len([call for call in calls if call.startswith("handle")]) == n_started


@pytest.mark.parametrize(
    ("use", "is_dropped"),
    [
        ("for work in works: pass", True),
        ("for work in works: work.wait()", False),
        ("works[-1].wait()", False),
        ("works.pop().wait()", False),
        ("return works", False),
        ("return dict(zip(x, works))", False),
        ("x.works = works", False),
        ("finish(works)", False),
    ],
)
def test_unused_handles_of_unknown_operations_are_reported_as_dropped(use, is_dropped):
    source = f"import torch.distributed as dist\n\ndef f(x):\n    works = dist.batch_isend_irecv(x.ops())\n    {use}\n"
    codes = [finding.rule.code for finding in lint_source("m.py", Text(source)).findings]
    assert codes == (["SYN603"] if is_dropped else [])


def test_a_dropped_batch_of_unknown_operations_is_launched():
    assert calls_of("dist.batch_isend_irecv(f())") != []


def test_one_handle_may_stand_for_all_operations_of_a_batch():
    source = (
        f"import torch.distributed as dist\n\ndef f(x, y):\n    (work,) = {BATCH.partition(' = ')[2].strip()}\n    "
    )
    assert [f.rule.code for f in lint_source("m.py", Text(source + "work.wait()\n")).findings] == []
    assert [f.rule.code for f in lint_source("m.py", Text(source + "return x + y\n")).findings] != []
