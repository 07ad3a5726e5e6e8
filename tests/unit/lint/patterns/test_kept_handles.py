"""Handles of collectives that are waited for too late, or never."""

import pytest

from syncheck.lint.patterns import kept_handles
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of
from tests.unit.lint.program import reported


def found(source):
    source = "import torch.distributed as dist\n" + source
    assert kept_handles.can_matter(source)
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in kept_handles.findings(context_of(file))]


LOOP = """
def reduce(buckets, flat, shards):
    for i, bucket in enumerate(buckets):
        {before}
        {write}
        work = dist.all_reduce({tensor}, async_op=True)
        {after}
    work.wait()
"""
PARTS = {
    "before": "view = flat[: bucket.numel]",
    "write": "view.zero_()",
    "tensor": "view",
    "after": "shards.append(work)",
}


@pytest.mark.parametrize(
    "parts", [{}, {"before": "pass", "write": "flat.zero_()", "tensor": "flat"}, {"write": "view /= 2"}]
)
def test_a_buffer_of_all_iterations_that_the_next_one_writes_is_reported(parts):
    assert found(LOOP.format(**(PARTS | parts))) == [("SYN602", 6)]


@pytest.mark.parametrize(
    "parts",
    [
        {"after": "work.wait()"},
        {"before": "view = flat[: bucket.numel]; work.wait()"},
        {"before": "view = flat[: bucket.numel]; poll = work.is_completed()"},
        {"before": "view = torch.empty(4)"},
        {"before": "view = flat[i]"},
        {"before": "view = flat[i : i + 4]"},
        {"write": "bucket.zero_()"},
        {"after": "torch.cuda.synchronize()"},
        {"after": "finish_one(shards)", "write": "total = view.sum()"},
    ],
)
def test_other_writes_in_a_loop_are_not_reported(parts):
    assert found(LOOP.format(**(PARTS | parts))) == []


BUCKETS = """
class Reducer:
    def start(self, bucket):
        bucket.work = dist.all_reduce(bucket.flat, async_op=True)
    def finish(self, buckets):
        for bucket in buckets:
            {use}
"""


@pytest.mark.parametrize(
    "use", ["if bucket.work is not None: bucket.unpack()", "assert bucket.work is None", "bucket.work = None"]
)
def test_a_handle_that_is_only_compared_or_dropped_is_reported(use):
    assert found(BUCKETS.format(use=use)) == [("SYN603", 5)]


@pytest.mark.parametrize(
    "use",
    [
        "bucket.work.wait()",
        "if bucket.work is not None: bucket.work.wait()",
        "waiting.append(bucket.work)",
        "for work in [bucket.work]: work.wait()",
        "return bucket.work",
        "bucket.unpack()",  # another file may wait for it
        "bucket.work = bucket.unpack()",
        "bucket.other = None",
    ],
)
def test_a_handle_that_something_may_wait_for_is_not_reported(use):
    assert found(BUCKETS.format(use=use)) == []


GATHERED = """
def step(buckets, others):
    handles = []
    for bucket in buckets:
        handles.append(dist.all_gather_into_tensor(bucket.full, bucket.shard, async_op={flag}))
    for bucket, work in zip(buckets, {handles}):
        {steps}
"""


def gathered(steps, flag="True", handles="handles"):
    return found(GATHERED.format(steps=steps.replace("; ", "\n        "), flag=flag, handles=handles))


def test_a_result_that_is_used_before_the_wait_of_the_same_iteration_is_reported():
    assert gathered("bucket.load(bucket.full); work.wait()") == [("SYN601", 8)]


@pytest.mark.parametrize(
    ("steps", "parts"),
    [
        ("work.wait(); bucket.load(bucket.full)", {}),
        ("bucket.load(bucket.shard); work.wait()", {}),
        ("bucket.load(bucket.full); work.wait()", {"flag": "False"}),
        ("bucket.load(bucket.full); work.wait()", {"handles": "others"}),
        ("first.wait(); bucket.load(bucket.full); work.wait()", {}),
        ("bucket.load(bucket.full)", {}),
    ],
)
def test_a_result_that_may_be_complete_is_not_reported(steps, parts):
    assert gathered(steps, **parts) == []


def test_a_loop_in_a_nested_function_is_reported_once():
    nested = "def outer():\n" + "".join(f"    {line}\n" for line in LOOP.format(**PARTS).strip().split("\n"))
    assert found(nested) == [("SYN602", 6)]


COLLECTED = """
import torch.distributed as dist


class Reducer:
    def __init__(self):
        self.works = []

    def reduce(self, grad):
        self.works.append(dist.all_reduce(grad, async_op=True))

    def finish(self):
        print(len(self.works))
        {end}
"""


def found_in(end):
    return reported(COLLECTED.format(end=end), (), "is never waited for")


@pytest.mark.parametrize("end", ["self.works.clear()", "if self.works: self.works.clear()"])
def test_a_list_of_handles_that_is_only_emptied_is_reported(end):
    assert found_in(end) == [("SYN603", 10)]


@pytest.mark.parametrize(
    "end",
    [
        "for work in self.works: work.wait()",
        "wait_for_all(self.works); self.works.clear()",
        "works = self.works; self.works.clear()",
        "return self",
        "getattr(self, 'works').clear()",
        "torch.cuda.synchronize(); self.works.clear()",
    ],
)
def test_a_list_of_handles_that_something_may_wait_for_is_not_reported(end):
    assert found_in(end) == []


RESET = """
def reduce(tensors, wait_for):
    works = []
    for tensor in tensors:
        {new}
        work = dist.all_reduce(tensor, async_op=True)
        works.append(work)
        {then}
    {end}
"""
RESET_PARTS = {"new": "works = []", "then": "", "end": "for work in works: work.wait()"}


@pytest.mark.parametrize("parts", [{}, {"end": "return works"}, {"end": "wait_for(works)"}])
def test_a_list_that_each_iteration_makes_anew_loses_handles(parts):
    assert found(RESET.format(**(RESET_PARTS | parts))) == [("SYN603", 7)]


@pytest.mark.parametrize(
    "parts",
    [
        {"new": ""},
        {"new": "works = [tensor]"},
        {"then": "wait_for(works)"},
        {"then": "for work in works: work.wait()"},
        {"end": "return tensors"},
    ],
)
def test_a_list_of_all_iterations_or_one_that_is_waited_for_in_each_loses_none(parts):
    assert found(RESET.format(**(RESET_PARTS | parts))) == []


HOOK = """
def shard(param, owner):
    def {name}(grad, other):
        {start}
        return {returned}
    param.register_hook({name})
"""
HOOK_PARTS = {"name": "reduce_hook", "start": "dist.reduce(grad, dst=owner, async_op=True)", "returned": "grad"}


def test_a_gradient_that_a_hook_returns_while_it_is_reduced_is_reported():
    assert found(HOOK.format(**HOOK_PARTS)) == [("SYN601", 6)]


@pytest.mark.parametrize(
    "parts",
    [
        {"name": "reduce"},
        {"start": "dist.reduce(grad, dst=owner, async_op=False)"},
        {"start": "dist.reduce(grad, dst=owner, async_op=True).wait()"},
        {"start": "work = dist.reduce(grad, dst=owner, async_op=True); work.wait()"},
        {"returned": "None"},
        {"returned": "other"},
    ],
)
def test_other_functions_with_collectives_are_not_reported(parts):
    assert found(HOOK.format(**(HOOK_PARTS | parts))) == []
