"""Waits of the host before a block of work on a stream of an object."""

import ast
import textwrap

import pytest

from syncheck.lint.host_waits import is_cast, may_come_before, method_around, waits_for_others
from syncheck.lint.nodes import methods_of, walk

CLASS = """
class A:
    def __init__(self):
        self.s = torch.cuda.Stream()
        self.done = torch.cuda.Event()

    def step(self, loss):
        {caller}
        self.run()

    def run(self):
        {before}
        with torch.cuda.stream(self.s):
            work()
            {record}
        torch.cuda.synchronize()

    def drain(self):
        self.s.synchronize()

    def finish(self):
        torch.cuda.synchronize()
"""


def class_with(before="pass", caller="pass", record="pass"):
    return ast.parse(textwrap.dedent(CLASS).format(before=before, caller=caller, record=record)).body[0]


def block_of(kind):
    return next(node for node in walk(kind) if isinstance(node, ast.With))


def is_before(**parts):
    kind = class_with(**parts)
    return may_come_before(kind, block_of(kind), "s")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("pass", False), ("self.s.synchronize()", False), ("self.drain()", False), ("self.log(1)", False),
        ("work.wait()", False), ("torch.cuda.current_stream().wait_stream(other)", False),
        ("torch.cuda.synchronize()", True), ("self.t.synchronize()", True), ("self.finish()", True),
        ("n = x.item()", True), ("y = x.cpu()", True), ("self.wait_for_all()", True),
    ],
)  # fmt: skip
def test_only_waits_for_other_streams_count(before, expected):
    assert is_before(before=before) is expected
    assert is_before(caller=before) is expected


def test_events_of_the_stream_itself_do_not_count():
    assert not is_before(before="self.done.synchronize()", record="self.done.record(self.s)")
    assert not is_before(before="self.done.synchronize()", record="self.done.record(stream=self.s)")
    assert is_before(before="self.done.synchronize()", record="self.done.record()")
    assert is_before(before="self.done.synchronize()")


def test_a_block_in_a_nested_function_may_run_at_any_time():
    kind = ast.parse("class A:\n def f(self):\n  def g():\n   with torch.cuda.stream(self.s): pass\n").body[0]
    assert method_around(kind, block_of(kind)) is None
    assert may_come_before(kind, block_of(kind), "s")
    assert list(methods_of(kind)) == ["f"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("x.item()", True),
        ("self.size()", False),  # it may read a number of the host
        ("self.finish()", True),
        ("self.drain()", False),
        ("torch.cuda.synchronize()", True),
        ("self.s.synchronize()", False),
    ],
)
def test_a_called_method_may_read_values_of_the_host(call, expected):
    kind = class_with()
    kind.body += ast.parse("def size(self):\n    return self.n[0].item()\n").body
    assert waits_for_others(kind, ast.parse(call, mode="eval").body, "s") is expected


@pytest.mark.parametrize(("source", "expected"), [("x.float()", True), ("x.y.int()", True), ("float(x)", False)])
def test_casts_of_tensors_are_not_reads(source, expected):
    assert is_cast(ast.parse(source, mode="eval").body) is expected


def test_methods_that_call_one_another_take_no_exponential_time():
    calls = "".join(f"        self.m{n}()\n" for n in range(30))
    methods = "".join(f"    def m{n}(self):\n{calls}" for n in range(30))
    kind = ast.parse(textwrap.dedent(CLASS).format(before="self.m0()", caller="pass", record="pass") + methods).body[0]
    assert not may_come_before(kind, block_of(kind), "s")
