"""Tensors that are written while a collective that the same block has started still uses them."""

import ast
import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.patterns.pending_writes import can_matter, findings, may_wait_for_collective
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

PROGRAM = """
import torch.distributed as dist


class Wrapper:
    def finish(self, kept, others):
        handles = []
        for param in self.module.parameters():
            {start}
            {between}
            {write}
        for handle in handles:
            handle.wait()
"""
START = "handles.append(dist.all_reduce(param.grad, async_op=True))"
WRITE = "param.grad /= dist.get_world_size()"


def found(start=START, write=WRITE, between="pass"):
    source = textwrap.dedent(PROGRAM).format(start=start, write=write, between=between)
    assert can_matter(source) == ("async_op" in source or "isend" in source)
    report = lint_source("program.py", Text(source))
    return [(finding.rule.code, finding.location.frame.line) for finding in report.findings]


@pytest.mark.parametrize(
    ("start", "write"),
    [
        (START, WRITE),
        (START, "param.grad.div_(2)"),
        (START, "param.grad.data.mul_(0.5)"),
        (START, "param.grad.copy_(kept)"),
        ("handles.append(dist.all_reduce(param.grad.data, async_op=True))", WRITE),
        ("handles.append(dist.broadcast(tensor=param.data, src=0, async_op=True))", "param.data.zero_()"),
        ("handles.append(dist.reduce_scatter_tensor(kept.shard, param.grad, async_op=True))", "param.grad.zero_()"),
        ("handles.append(dist.isend(param.grad, 1))", "param.grad.zero_()"),
    ],
)
def test_a_write_after_the_start_is_reported(start, write):
    assert found(start, write) == [("SYN602", 11)]
    assert found(start, write, between="handles.append(None)") == [("SYN602", 11)]


@pytest.mark.parametrize(
    "given",
    [
        {"between": "handles[-1].wait()"},
        {"between": "param.grad = kept"},
        {"between": "param = kept"},
        {"between": "self.finish_one(handles)"},
        {"between": "if kept: handles[-1].wait()"},
        {"write": "kept.grad /= 2"},
        {"write": "total = param.grad.sum()"},
        {"write": "param.grad.requires_grad_()"},
        {"start": "dist.all_reduce(param.grad, async_op=True).wait()"},
        {"start": "dist.all_reduce(param.grad, async_op=kept)"},
        {"start": "dist.all_reduce(param.grad)"},
        {"start": "self.comm.all_reduce(param.grad, async_op=True)"},
        {"start": "handles.append(dist.all_reduce(param.grad.clone(), async_op=True))"},
    ],
)
def test_a_write_that_may_be_ordered_is_not_reported(given):
    assert not [code for code, _ in found(**given) if code == "SYN602"]


def test_collectives_of_a_coalescing_block_are_waited_for_as_a_whole():
    start = f"with dist._coalescing_manager(async_ops=True) as kept: {START}; {WRITE}"
    assert not [code for code, _ in found(start, "pass") if code == "SYN602"]


KEPT = """
import torch.distributed as dist
class Bucket:
    pass
class Reducer:
    def launch(self, bucket):
        bucket.work = dist.all_reduce(bucket.flat, async_op=True)
    def finish(self, buckets):
        for bucket in buckets:
            {steps}
"""


def found_in_class(steps):
    file = SourceFile("file.py", KEPT.format(steps=steps))
    functions = [node for kind in file.tree.body if isinstance(kind, ast.ClassDef) for node in kind.body]
    functions = [node for node in functions if isinstance(node, ast.FunctionDef)]
    return [(f.rule.code, f.location.frame.line) for f in findings(context_of(file, functions=functions))]


def test_a_write_before_the_wait_for_the_collective_of_the_same_object_is_reported():
    assert found_in_class("bucket.flat.mul_(0.5); bucket.work.wait()") == [("SYN602", 10)]
    assert found_in_class("bucket.flat /= 2; print(1); bucket.work.wait()") == [("SYN602", 10)]


@pytest.mark.parametrize(
    "steps",
    [
        "bucket.work.wait(); bucket.flat.mul_(0.5)",
        "bucket.flat.mul_(0.5)",
        "bucket.other.mul_(0.5); bucket.work.wait()",
        "bucket.flat.mul_(0.5); self.launch(bucket); bucket.work.wait()",
        "bucket.flat.mul_(0.5); bucket.work = start(); bucket.work.wait()",
        "self.flat.mul_(0.5); bucket.work.wait()",
        "bucket.flat.sum(); bucket.work.wait()",
        "bucket.work.wait(); bucket.flat.mul_(0.5); bucket.work.wait()",
    ],
)
def test_a_write_that_is_ordered_with_the_collective_of_an_object_is_not_reported(steps):
    assert found_in_class(steps) == []


@pytest.mark.parametrize(
    ("called", "expected"),
    [(["copy_", "wait"], True), (["is_completed"], True), (["drain"], True), (["copy_", "append"], False), ([], False)],
)
def test_a_loop_may_wait_or_poll(called, expected):
    assert may_wait_for_collective(called) is expected
