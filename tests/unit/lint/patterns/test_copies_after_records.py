"""Tensors that are computed from recorded ones, and returned without a record of their own."""

import textwrap

import pytest

from syncheck.lint.patterns import copies_after_records
from tests.unit.lint.checking import found_by

SOURCE = """
import torch
def collate(t, u, consumer, kind):
    t = t.to("cuda", non_blocking=True)
    {record}
    {cast}
    {then}
    return {result}
"""
PARTS = {"record": "t.record_stream(consumer)", "cast": "t = t.float()", "then": "", "result": "t"}


def found(**parts):
    return found_by(copies_after_records, textwrap.dedent(SOURCE.format(**(PARTS | parts))))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"cast": "t = t.to(kind)"},
        {"cast": "t = t / 255"},
        {"cast": "x = t.half()", "result": "x, u"},
        {"then": "u.record_stream(consumer)"},
    ],
)
def test_a_tensor_that_is_computed_after_the_record_is_reported(parts):
    assert found(**parts) == [("SYN201", 6)]


def test_a_returned_expression_is_reported():
    assert found(cast="", result="t.float()") == [("SYN201", 8)]


@pytest.mark.parametrize(
    "parts",
    [
        {"cast": ""},
        {"cast": "t = t.view(-1)"},
        {"cast": "t = t.to(u.device)"},
        {"cast": "u = u.float()", "result": "u"},
        {"cast": "x = t.float()"},
        {"then": "t.record_stream(consumer)"},
        {"record": "t.record_stream(torch.cuda.current_stream())"},
        {"record": "s = torch.cuda.current_stream(); t.record_stream(s)"},
        {"cast": "with torch.cuda.stream(consumer): t = t.float()"},
    ],
)
def test_recorded_tensors_and_results_that_stay_are_not_reported(parts):
    assert found(**parts) == []
