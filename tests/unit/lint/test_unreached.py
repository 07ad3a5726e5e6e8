"""Paths to asynchronous calls in nested branches."""

import ast
import textwrap

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.unreached import ways_to_unreached

SOURCE = """
def run(x, a, b):
    if a:
        x = x + 1
    elif b > 1:
        {first}
    else:
        if not a:
            {second}
    {last}
"""
CALL = "dist.all_reduce(x, async_op=True)"


def ways(first="pass", second="pass", last="pass", reached=()):
    source = textwrap.dedent(SOURCE.format(first=first, second=second, last=last))
    function = ast.parse(source).body[0]
    return ways_to_unreached(function, {node for node in walk(function) if getattr(node, "lineno", 0) in reached})


def test_each_call_has_the_decisions_of_its_branches():
    first, second = frozenset({("a", False), ("b > 1", True)}), frozenset({("a", False), ("b > 1", False)})
    assert ways(first=CALL, second=CALL) == [first, second]
    assert ways(first=f"{CALL}; {CALL}") == [first]


def test_a_call_that_ran_needs_no_further_path():
    assert ways(first=CALL, reached={6}) == []


def test_a_call_in_fewer_branches_is_reached_by_other_paths():
    assert ways(last=CALL) == []
    assert ways(last=f"if a: {CALL}") == []


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (CALL, True), ("x.to(d, non_blocking=flag)", True), ("dist.isend(x, 1)", True), ("s.wait_stream(t)", True),
        ("x.to(d, non_blocking=False)", False), ("x.to(d)", False), ("f = lambda: dist.isend(x, 1)", False),
    ],
)  # fmt: skip
def test_only_asynchronous_calls_are_worth_a_path(call, expected):
    assert bool(ways(first=call)) is expected


def test_a_block_on_a_stream_is_worth_a_path():
    block = "\n            ".join(["with torch.cuda.stream(s):", "    f(x)"])
    assert ways(second=block)
    assert not ways(second=block.replace("torch.cuda.stream(s)", "lock"))
