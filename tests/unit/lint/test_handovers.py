"""Tensors that a function returns to callers outside the file."""

import ast

import pytest

from syncheck.findings import Applicability
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.handovers import code_for, exit_of
from syncheck.lint.interp.values import UNKNOWN, Constant, Key, Mapping, Sequence, Tensor
from syncheck.lint.nodes import text

PREFETCHER = """import torch

class Prefetcher:
    def __init__(self, data):
        self.data, self.side = iter(data), torch.cuda.Stream()

    def __iter__(self):
        self.load()
        return self

    def load(self):
        self.batch = next(self.data)
        with torch.cuda.stream(self.side):
            {copy}

    def __next__(self):
        torch.cuda.current_stream().wait_stream(self.side)
        batch = self.batch
        if batch is None:
            raise StopIteration
        self.load()
        return {returned}
"""
INDEXED = "for k in range(len(self.batch)): self.batch[k] = self.batch[k].cuda(non_blocking=True)"
RECORD = "record_stream(torch.cuda.current_stream())"


def findings(copy, returned="batch"):
    return lint_source("loading.py", Text(PREFETCHER.replace("{copy}", copy).replace("{returned}", returned))).findings


def test_a_list_is_recorded_where_it_is_returned():
    (finding,) = findings(INDEXED)
    assert (finding.rule.code, finding.location.frame.line, finding.location.frame.function) == (
        "SYN201",
        22,
        "__next__",
    )
    assert finding.help.startswith(f"add `for tensor in batch: tensor.{RECORD}` before line 22; or let stream")
    assert "freed here" not in [place.message for place in finding.related]
    assert finding.fix.applicability is Applicability.UNSAFE
    assert finding.fix.edits[0].code == f"for tensor in batch: tensor.{RECORD}"


def test_results_of_unknown_contents_are_described():
    (finding,) = findings(INDEXED, "{'batch': batch}")
    assert finding.help.startswith(f"call `x.{RECORD}` for each tensor `x` in `{{'batch': batch}}` before line 22")
    assert finding.fix is None


X, Y = (object.__new__(Tensor) for _ in range(2))


@pytest.mark.parametrize(
    ("returned", "value", "expected"),
    [
        ("x", X, f"x.{RECORD}"),
        ("self.x", X, f"self.x.{RECORD}"),
        ("batch", Sequence([X, Y]), f"for tensor in batch: tensor.{RECORD}"),
        ("batch", Mapping({"x": X}), f"for tensor in batch.values(): tensor.{RECORD}"),
        ("batch", Mapping({0: X, 1: Y}), f"for tensor in batch: tensor.{RECORD}"),
        ("(x, y)", Sequence([X, Y]), f"for tensor in (x, y): tensor.{RECORD}"),
        ("(x, targets)", Sequence([X, Sequence([Y])]), f"for tensor in (x, *targets): tensor.{RECORD}"),
        ("[x, y]", Sequence([X, Y]), f"for tensor in (x, y): tensor.{RECORD}"),
        ("(x,)", Sequence([X]), f"for tensor in (x,): tensor.{RECORD}"),
        ("(x, n)", Sequence([X, Constant(3)]), ""),
        ("batch", Sequence([X, UNKNOWN]), ""),
        ("batch", Sequence([]), ""),
        ("batch", Mapping({Key("k", ()): X}), ""),
        ("load()", X, ""),  # it would run again
    ],
)
def test_the_code_names_each_tensor(returned, value, expected):
    code = code_for(ast.parse(returned, mode="eval").body, value)
    assert code == expected
    ast.parse(code)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(x):\n if x: return 1\n return x", "return x"),
        ("def f(x):\n if x: return x\n return", "return x"),
        ("def f(x):\n def g(): return 1\n yield x", None),
    ],
)
def test_the_last_return_hands_over(source, expected):
    end = exit_of(ast.parse(source).body[0])
    assert (None if end is None else text(end)) == expected


def test_other_nodes_return_nothing():
    assert exit_of(ast.parse("x = 1").body[0]) is None
