"""Collectives with the semantics of NCCL."""

import pytest

from tests.unit.lint.program import calls_of, constant, follow

X = "x = torch.ones(4, device='cuda')\ny = torch.ones(4, device='cuda')\n"


@pytest.mark.parametrize(
    ("call", "launch"),
    [
        ("dist.all_reduce(x)", "allreduce_ w1"),
        ("dist.all_gather_into_tensor(x, y)", "_allgather_base_ w1 r2"),
        ("dist.all_gather([x], tensor=y)", "allgather_ w1 r2"),
        ("dist.broadcast(tensor=x, src=0)", "broadcast_ w1"),
        ("dist.reduce_scatter_tensor(x, input=y)", "_reduce_scatter_base_ w1 r2"),
        ("dist.reduce_scatter_single(x, input=y)", "_reduce_scatter_base_ w1 r2"),
        ("dist.all_gather_single(x, y)", "_allgather_base_ w1 r2"),
    ],
)
def test_a_synchronous_collective_runs_on_the_current_stream(call, launch):
    assert calls_of(call, X) == [f"launch cuda:0 c10d::{launch}"]


def test_an_asynchronous_collective_runs_on_its_own_stream_after_the_current_one():
    assert calls_of("w = dist.all_reduce(x, async_op=True)", X) == [
        "wait s1 for cuda:0 (torch)", "launch s1 c10d::allreduce_ w1", "handle of c10d::allreduce_", "record e1 on s1",
    ]  # fmt: skip


def test_wait_orders_the_current_stream_and_the_host_only_with_a_timeout():
    before = X + "w = dist.all_reduce(x, async_op=True)\n"
    assert calls_of("w.wait()", before) == ["wait cuda:0 for e1 (torch)"]
    assert calls_of("w.wait(5)", before) == ["wait cuda:0 for e1 (torch)", "sync e1"]
    assert calls_of("w.wait(timeout=unknown)", before) == ["wait cuda:0 for e1 (torch)", "sync e1"]
    assert calls_of("w.wait(None)", before) == ["wait cuda:0 for e1 (torch)"]


def test_each_group_and_device_has_its_own_stream():
    before = X + "g = dist.new_group()\nz = torch.ones(4, device='cuda:1')\n"
    source = "dist.all_reduce(x, async_op=True)\ndist.all_reduce(x, group=g, async_op=True)\n"
    source += "dist.all_reduce(z, async_op=True)\ndist.all_reduce(y, async_op=True)"
    launched = [call.split()[1] for call in calls_of(source, before) if call.startswith("launch")]
    assert launched == ["s1", "s2", "s3", "s1"]


def test_messages_record_their_tensors_and_other_collectives_keep_them_alive():
    assert "record_stream 1 s1" in calls_of("w = dist.isend(x, 1)", X)
    calls = calls_of("w = dist.all_reduce(x, async_op=True)\ndel x", X)
    assert "free 1" not in calls
    assert calls_of("w.wait()\ny.add_(1)", X + "w = dist.all_reduce(x, async_op=True)\ndel x\n")[0] == "free 1"


def test_a_barrier_makes_the_host_wait():
    assert calls_of("dist.barrier()", X) == ["sync cuda:0 (asked for)"]


def test_host_tensors_are_accessed_by_the_host():
    assert calls_of("h = torch.ones(4, pin_memory=True)\ndist.all_reduce(h)") == [
        "allocate 1 on host", "host c10d::allreduce_ w1",
    ]  # fmt: skip
    calls = calls_of("h = torch.ones(4)\nw = dist.all_reduce(h, async_op=True)\nw.wait()")
    assert calls[0] == "allocate 1 on host"
    assert calls[-1] == "sync e1"


@pytest.mark.parametrize(("flipped", "stream"), [(frozenset(), "s1"), (frozenset({0}), "cuda:0")])
def test_an_unknown_async_op_is_decided_by_the_path(flipped, stream):
    calls = calls_of("dist.all_reduce(x, async_op=unknown)\nx.add_(1)", X, flipped=flipped)
    assert [call for call in calls if "launch" in call] == [
        f"launch {stream} c10d::allreduce_ w1",
        "launch cuda:0 add_ w1",
    ]


def test_coalesced_collectives_are_not_followed():
    assert calls_of("with dist._coalescing_manager():\n    w = dist.all_reduce(x, async_op=True)", X) == []


def test_a_handle_passed_to_unknown_code_counts_as_waited_for():
    before = X + "w = dist.all_reduce(x, async_op=True)\n"
    assert "sync e1" in calls_of("f(w)", before)
    assert calls_of("w.is_completed()", before) == ["sync e1", "all complete"]


def test_other_functions_are_not_collectives():
    program = follow(X + "r = dist.get_rank()")
    assert constant("r", X + "r = dist.get_rank()") == "unknown"
    assert program.interpreter.collectives.call("get_rank", None, is_async=False) is None


@pytest.mark.parametrize(("attribute", "is_private"), [("work", False), ("_work", True)])
def test_other_code_may_wait_with_a_handle_in_a_public_attribute(attribute, is_private):
    program = follow(X + f"class A: pass\na = A()\na.{attribute} = dist.all_reduce(x, async_op=True)\n")
    assert bool(program.interpreter.collectives.held) is is_private
