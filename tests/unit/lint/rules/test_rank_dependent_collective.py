"""SYN605 in source: a collective of all ranks under a condition that holds for only one rank."""

import textwrap

import pytest

from syncheck.lint.rules.rank_dependent_collective import RankDependentCollective
from tests.unit.lint.rules.syntactic import findings, found, lines

HEAD = "import torch.distributed as dist\n"
REDUCE = "dist.all_reduce(x)"


def script(body):
    return lines(RankDependentCollective, HEAD + body)


def below(condition, body=REDUCE):
    words = "  # rank == 0"  # the prefilter lets the file through, whatever the condition is
    return script(f"if {condition}:{words}\n{textwrap.indent(body, '    ')}\n")


CONDITIONS = [
    "rank == 0", "self.rank == 0", "local_rank == 1", "dist.get_rank() == 0", "get_rank(group) == 0", "get_rank()==0",
    "rank == '0'", "(rank\n  == 0)", "(rank  # comment\n  == 0)",
    "is_main_process()", "is_master_process", "trainer.is_rank_zero", "accelerator.is_main_process",
    "is_world_process_zero()", "is_world_zero()",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_file_with_a_rank_condition_is_parsed(condition):
    assert RankDependentCollective.may_find(f"if {condition}:\n    {REDUCE}\n")


def test_a_file_without_a_rank_condition_is_not_parsed():
    assert not RankDependentCollective.may_find(f"rank = 0\nif ranks != [0]:\n    {REDUCE}\n")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_collective_that_only_one_rank_calls_is_found(condition):
    assert below(condition) == [3 + condition.count("\n")]


def test_other_arguments_do_not_hide_a_collective():
    assert below("rank == 0", "dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True)") == [3]


@pytest.mark.parametrize("condition", ["get_rank(group) == 0", "get_rank()==0", "is_rank_zero", "rank==0"])
def test_each_spelling_of_a_rank_condition_is_recognized(condition):
    assert script(f"if {condition}:\n    {REDUCE}\n") == [3]


def test_the_message_names_the_collective():
    (finding,) = findings(RankDependentCollective, HEAD + f"if rank == 0:\n    {REDUCE}\n")
    assert finding.rule.code == "SYN605"
    assert "`all_reduce`" in finding.message


@pytest.mark.parametrize(
    "condition",
    ["rank != 0", "rank < 4", "0 == rank", "rank == world - 1", "0 <= rank == 0", "ready", "is_ready()", "crank == 0",
     "rank.x == 0", "not is_main_process()", "rank == 0 and ready", "main_process()"],
)  # fmt: skip
def test_other_conditions_are_not_reported(condition):
    assert below(condition) == []


@pytest.mark.parametrize(
    "call",
    ["dist.barrier()", "dist.isend(x, 1)", "dist.irecv(x, 1)", "dist.all_reduce(x, group=pair)", "other.all_reduce(x)",
     "dist.get_world_size()", "dist.all_reduce"],
)  # fmt: skip
def test_other_calls_are_not_reported(call):
    assert below("rank == 0", call) == []


@pytest.mark.parametrize("imports", ["from torch.distributed import all_reduce", "import torch"])
def test_a_collective_is_recognized_by_its_import(imports):
    call = "all_reduce(x)" if imports.startswith("from") else "torch.distributed.all_reduce(x)"
    source = f"{imports}\nif rank == 0:\n    {call}\n"
    assert [line for line, _ in found(RankDependentCollective, source)] == [3]


@pytest.mark.parametrize("last", ["return", "raise ValueError", "continue", "break"])
def test_a_branch_that_leaves_may_be_matched_by_later_code(last):
    body = f"for _ in y:\n    if rank == 0:\n        dist.broadcast(x, 0)\n        {last}\n    pass\n"
    assert script(body if last in {"continue", "break"} else f"def f():\n{textwrap.indent(body, '    ')}") == []


def test_a_branch_that_leaves_conditionally_is_reported():
    assert below("rank == 0", "if y: raise ValueError\ndist.broadcast(x, 0)") == [4]


def test_an_else_branch_may_contain_the_matching_call():
    assert script(f"if rank == 0:\n    {REDUCE}\nelse:\n    {REDUCE}\n") == []
    assert script(f"if rank == 0:\n    {REDUCE}\nelif y:\n    pass\n") == []


def test_another_call_of_the_same_collective_in_the_function_may_match():
    both = f"if rank == 0:\n    {REDUCE}\nif rank == 1:\n    {REDUCE}\n"
    assert script(f"def f():\n{textwrap.indent(both, '    ')}") == []
    other = f"if rank == 0:\n    {REDUCE}\nif rank == 1:\n    dist.broadcast(x, 0)\n"
    assert script(f"def f():\n{textwrap.indent(other, '    ')}") == [4, 6]


def test_a_call_in_a_nested_function_does_not_match():
    source = f"def f():\n    def g():\n        {REDUCE}\n    if rank == 0:\n        {REDUCE}\n"
    assert script(source) == [6]


def test_calls_after_a_nested_function_belong_to_the_outer_function():
    inner = f"    def g():\n        if rank == 0:\n            {REDUCE}\n"
    assert script(f"def f():\n    if rank == 0:\n        {REDUCE}\n{inner}    {REDUCE}\n") == [7]


def test_a_function_only_defined_in_the_branch_is_not_a_call():
    assert below("rank == 0", f"def f():\n    {REDUCE}") == []


def test_methods_are_checked():
    assert script(f"class A:\n    def f(self):\n        if self.rank == 0:\n            {REDUCE}\n") == [5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if rank == 0:\n    dist.all_reduce(x)", True),
        ("dist.all_reduce(x)\nif is_main_process():\n    broadcast (x)", True),
        ("dist.all_reduce(x)\nif rank == 0:\n    print(x)", False),
        ("if rank == 0:\n    all_reduce_time = 1", False),
        ("all_reduce(x)", False),
        ("if (rank  # the first\n    == 0):\n    dist.all_reduce(x)", True),
        ("rank  " + "#" * 60 + "\ndist.all_reduce(x)", False),
    ],
)
def test_a_file_is_parsed_if_a_collective_follows_a_rank_condition(text, expected):
    assert RankDependentCollective.may_find(text) is expected
