"""Rings of unknown size, and operators on containers."""

import ast

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.arithmetic import MAX_ITERATIONS
from syncheck.lint.interp.rings import of_containers, periods
from syncheck.lint.interp.values import NONE, UNKNOWN, Constant, Mapping, Sequence

RING = "slots = [make() for _ in range(n)]\nevents = [None] * n\ni = k % n\n"


def result(expression, left, right, text=RING):
    node = ast.parse(expression, mode="eval").body
    return of_containers(ast.parse(text), node.op, left, right, node)


def test_an_index_of_a_ring_returns_to_the_first_slot():
    indices = [result("k % n", Constant(number), UNKNOWN).value for number in range(MAX_ITERATIONS + 1)]
    assert indices == [*range(MAX_ITERATIONS), 0]


@pytest.mark.parametrize("text", ["a = [f() for _ in range(n)]", "i = k % n", "i = k % n; [f() for _ in range(m)]"])
def test_only_the_size_of_a_list_is_the_size_of_a_ring(text):
    assert result("k % n", Constant(1), UNKNOWN, text) is None


def test_a_list_with_an_item_for_each_slot():
    made = result("[None] * n", Sequence([NONE]), UNKNOWN)
    assert len(made.items) == MAX_ITERATIONS
    assert result("[None] * m", Sequence([NONE]), UNKNOWN) is UNKNOWN
    assert len(result("[None] * 2", Sequence([NONE]), Constant(2)).items) == 2


def test_lists_are_joined():
    made = result("a + b", Sequence([NONE]), Sequence([NONE], is_open=True))
    assert (len(made.items), made.is_open) == (2, True)


def test_dictionaries_are_merged():
    made = result("a | b", Mapping({1: NONE}), Mapping({2: UNKNOWN}, is_open=True))
    assert (made.items, made.is_open) == ({1: NONE, 2: UNKNOWN}, True)


def test_other_operators_are_not_about_lists():
    assert result("a + b", Constant(1), Constant(2)) is None
    assert result("a - b", Sequence([NONE]), Sequence([NONE])) is None


UPLOAD = """import torch
def upload(shards, rows, nbuf=3):
    bufs = [torch.empty(rows, pin_memory=True) for _ in range(nbuf)]
    done = [None] * nbuf
    dst = torch.empty(rows, device="cuda")
    for k, shard in enumerate(shards):
        i = k % nbuf
        if done[i] is not None:
            {wait}
        bufs[i].copy_(shard)
        dst.copy_(bufs[i], non_blocking=True)
        done[i] = torch.cuda.current_stream().record_event()
"""


@pytest.mark.parametrize(
    ("wait", "codes"), [("torch.cuda.current_stream().wait_event(done[i])", ["SYN302"]), ("done[i].synchronize()", [])]
)
def test_a_slot_of_a_ring_is_written_again(wait, codes):
    found = lint_source("m.py", Text(UPLOAD.format(wait=wait))).findings
    assert [finding.rule.code for finding in found if finding.rule.code.startswith("SYN3")] == codes


def test_a_divisor_that_is_no_size_is_a_period():
    source = (
        "slots = [make() for _ in range(cfg.depth)]\nuse(slots[i % cfg.depth])\nif i % cfg.every == 0: log(i % n)\n"
    )
    assert periods(ast.parse(source)) == {"every", "n"}
