"""Reads and writes of torch.distributed collectives, and the arguments on which ranks must agree."""

import pytest
import torch
import torch.distributed as dist

from syncheck.instrument import collectives
from syncheck.instrument.collectives import argument, calls, hook_group_methods, plan_of, returns_handle
from syncheck.instrument.patching import Patches

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


def test_only_collectives_have_a_plan_here():
    assert plan_of(torch.ops.aten.add.Tensor) is None
    plan = plan_of(torch.ops.c10d.allreduce_.default)
    assert (plan.touches, plan.writes_outputs) == (True, False)


def test_arguments_are_found_by_name():
    func = torch.ops.c10d.broadcast_.default
    names = [found.name for found in func._schema.arguments]
    args = tuple(range(len(names)))
    assert argument(func, "root_rank", args, {}) == names.index("root_rank")
    assert argument(func, "root_rank", args[:2], {"root_rank": 5}) == 5
    assert argument(func, "no such", args, {}) is None


@pytest.mark.parametrize(
    ("depth", "operator", "expected"),
    [
        (0, "c10d::allreduce_", False), (1, "c10d::allreduce_", True), (0, "_c10d_functional::all_reduce", True),
        (1, "aten::add", False),
    ],
)  # fmt: skip
def test_handles_are_returned_only_to_python_calls(monkeypatch, depth, operator, expected):
    monkeypatch.setattr(calls, "depth", depth)
    assert returns_handle(operator) is expected


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_calls_of_a_group_are_tracked(group):
    patches, handed, seen = Patches(), [], []
    hook_group_methods(patches, lambda work, event: handed.append(event))
    describe = collectives._reduce_name
    try:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        seen.append(describe(options))
        group.allreduce([torch.ones(1)], options).wait()
        assert calls.depth == 0
        assert handed == []  # no backend has recorded an event
    finally:
        patches.undo()
    assert seen == ["max"]
    assert describe(dist.ReduceOp.SUM) == "sum"
    assert describe(3) == ""


def test_a_group_is_identified_by_its_ranks(group):
    boxed = group.boxed()
    func = torch.ops.c10d.allreduce_.default
    found, me = collectives._group(func, ([torch.ones(1)], boxed), {})
    assert (found.ranks, me) == ((0,), 0)
    assert collectives.group_name(func, ([torch.ones(1)], boxed), {}) == found.name
    assert collectives._describe(func, ([torch.ones(1)], boxed), {}) is None  # alone, a rank agrees with itself


def test_each_backend_of_a_group_has_its_own_order(group, monkeypatch):
    func = torch.ops.c10d.allreduce_.default
    monkeypatch.setitem(collectives.c10d._world.pg_backend_config, group, "cpu:gloo,cuda:nccl")
    on_host = collectives.group_name(func, ([torch.ones(1)], group.boxed()), {})
    on_gpu = collectives.group_name(func, ([torch.ones(1, device="meta")], group.boxed()), {})
    assert (on_host, on_gpu) == (f"{group.group_name} on the CPU", group.group_name)


def test_types_and_shapes_are_described_in_words():
    assert collectives._describe_tensors([torch.ones(2, 3)]) == "float32 [2, 3]"
    assert collectives._describe_tensors([torch.ones(2)] * 9) == "9 tensors float32 [2]"
    long = collectives._describe_tensors([torch.ones(n) for n in range(9)])
    assert long.startswith("9 tensors of 36 elements: float32 [0], ")
    assert long != collectives._describe_tensors([torch.ones(n) for n in (*range(8), 9)])


def test_pairwise_exchanges_of_a_rank():
    assert collectives._pairs(1, [5, 6, 7], [1, 2, 3]) == ((1, 0, 5), (1, 2, 7), (0, 1, 1), (2, 1, 3))


@pytest.mark.parametrize(
    ("func", "root", "writes"),
    [
        (torch.ops.c10d.broadcast_.default, 0, False),
        (torch.ops.c10d.broadcast_.default, 1, True),
        (torch.ops.c10d.reduce_.default, 0, True),
        (torch.ops.c10d.reduce_.default, 1, False),
    ],
)
def test_ranks_that_only_send_write_nothing(func, root, writes, monkeypatch):
    monkeypatch.setattr(collectives, "_group", lambda *_: (None, 0))
    x = torch.ones(2)
    args = ([x], None, root, 0) if "broadcast" in str(func) else ([x], None, None, root, 0)
    ((tensor, its),) = collectives.touched(func, plan_of(func), args, {})
    assert (tensor is x, its.is_read, its.is_write) == (True, True, writes)


def test_in_an_unknown_group_all_ranks_may_write():
    func = torch.ops.c10d.broadcast_.default
    ((_, its),) = collectives.touched(func, plan_of(func), ([torch.ones(2)], None, 0, 0), {})
    assert its.is_write
