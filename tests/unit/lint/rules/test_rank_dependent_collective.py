"""SYN605 in source: a collective of all ranks below a condition that is true on one of them."""

import textwrap

import pytest

from syncheck.lint.rules.rank_dependent_collective import RankDependentCollective
from tests.unit.lint.rules.shape import findings, found, lines

HEAD = "import torch.distributed as dist\n"
REDUCE = "dist.all_reduce(x)"


def script(body):
    return lines(RankDependentCollective, HEAD + body)


def below(condition, body=REDUCE):
    words = "  # rank == 0"  # it is looked at, whatever the condition is
    return script(f"if {condition}:{words}\n{textwrap.indent(body, '    ')}\n")


CONDITIONS = [
    "rank == 0", "self.rank == 0", "local_rank == 1", "dist.get_rank() == 0", "get_rank(group) == 0", "get_rank()==0",
    "rank == '0'", "(rank\n  == 0)", "(rank  # comment\n  == 0)",
    "is_main_process()", "is_master_process", "trainer.is_rank_zero", "accelerator.is_main_process",
    "is_world_process_zero()", "is_world_zero()",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_text_with_a_condition_about_a_rank_is_parsed(condition):
    assert RankDependentCollective.may_find(f"if {condition}:\n    {REDUCE}\n")


def test_a_text_without_one_is_not():
    assert not RankDependentCollective.may_find(f"rank = 0\nif ranks != [0]:\n    {REDUCE}\n")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_collective_of_all_that_one_rank_makes_is_found(condition):
    assert below(condition) == [3 + condition.count("\n")]


def test_other_arguments_make_it_no_collective_of_some():
    assert below("rank == 0", "dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True)") == [3]


@pytest.mark.parametrize("condition", ["get_rank(group) == 0", "get_rank()==0", "is_rank_zero", "rank==0"])
def test_each_spelling_is_one_of_the_words_that_are_looked_for(condition):
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
def test_a_condition_that_is_not_about_one_rank_is_not(condition):
    assert below(condition) == []


@pytest.mark.parametrize(
    "call",
    ["dist.barrier()", "dist.isend(x, 1)", "dist.irecv(x, 1)", "dist.all_reduce(x, group=pair)", "other.all_reduce(x)",
     "dist.get_world_size()", "dist.all_reduce"],
)  # fmt: skip
def test_what_not_all_ranks_must_call_is_not(call):
    assert below("rank == 0", call) == []


@pytest.mark.parametrize("imports", ["from torch.distributed import all_reduce", "import torch"])
def test_a_collective_is_known_by_its_import(imports):
    call = "all_reduce(x)" if imports.startswith("from") else "torch.distributed.all_reduce(x)"
    source = f"{imports}\nif rank == 0:\n    {call}\n"
    assert [line for line, _ in found(RankDependentCollective, source)] == [3]


@pytest.mark.parametrize("last", ["return", "raise ValueError", "continue", "break"])
def test_a_branch_that_leaves_may_stand_for_the_others(last):
    body = f"for _ in y:\n    if rank == 0:\n        dist.broadcast(x, 0)\n        {last}\n    pass\n"
    assert script(body if last in {"continue", "break"} else f"def f():\n{textwrap.indent(body, '    ')}") == []


def test_a_branch_that_leaves_in_the_middle_goes_on():
    assert below("rank == 0", "if y: raise ValueError\ndist.broadcast(x, 0)") == [4]


def test_the_other_branch_is_that_of_the_other_ranks():
    assert script(f"if rank == 0:\n    {REDUCE}\nelse:\n    {REDUCE}\n") == []
    assert script(f"if rank == 0:\n    {REDUCE}\nelif y:\n    pass\n") == []


def test_another_call_of_it_in_the_function_may_be_that_of_the_others():
    both = f"if rank == 0:\n    {REDUCE}\nif rank == 1:\n    {REDUCE}\n"
    assert script(f"def f():\n{textwrap.indent(both, '    ')}") == []
    other = f"if rank == 0:\n    {REDUCE}\nif rank == 1:\n    dist.broadcast(x, 0)\n"
    assert script(f"def f():\n{textwrap.indent(other, '    ')}") == [4, 6]


def test_a_call_in_another_function_is_none_of_this_one():
    source = f"def f():\n    def g():\n        {REDUCE}\n    if rank == 0:\n        {REDUCE}\n"
    assert script(source) == [6]


def test_after_a_function_inside_the_one_around_it_counts_again():
    inner = f"    def g():\n        if rank == 0:\n            {REDUCE}\n"
    assert script(f"def f():\n    if rank == 0:\n        {REDUCE}\n{inner}    {REDUCE}\n") == [7]


def test_a_function_that_is_only_defined_in_the_branch_is_not_called_there():
    assert below("rank == 0", f"def f():\n    {REDUCE}") == []


def test_methods_are_looked_at():
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
def test_a_text_is_parsed_where_a_collective_comes_after_a_condition(text, expected):
    assert RankDependentCollective.may_find(text) is expected
