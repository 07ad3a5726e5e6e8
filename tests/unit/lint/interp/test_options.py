"""Branches that calls skip unless they pass an optional parameter."""

import ast

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.options import is_left_out

FUNCTION = """
def f(x, side, stats=None, *, log=None, size=3):
    {before}
    if {test}:
        {body}
"""


def left_out(test, body="side.synchronize()", before="pass"):
    tree = ast.parse(FUNCTION.format(test=test, body=body, before=before))
    branch = tree.body[0].body[1]
    return is_left_out(branch, tree)


@pytest.mark.parametrize("test", ["stats is not None", "stats", "log is not None"])
def test_a_parameter_without_a_value_skips_the_branch_that_needs_it(test):
    assert left_out(test)


@pytest.mark.parametrize(
    "test", ["x", "x is not None", "size", "stats is None", "stats and x", "other", "stats == 3", "not stats"]
)
def test_other_conditions_may_hold_by_default(test):
    assert not left_out(test)


@pytest.mark.parametrize("body", ["stats.wait()", "x.wait_event(stats)", "side.wait_stream(stats)"])
def test_a_caller_that_leaves_out_what_the_branch_waits_for_waits_itself(body):
    assert not left_out("stats is not None", body)


@pytest.mark.parametrize("before", ["stats = stats or {}", "y = 1 if stats else 2", "while stats: break"])
def test_a_parameter_that_is_bound_or_tested_elsewhere_is_not_optional(before):
    assert not left_out("stats is not None", before=before)


def test_code_outside_functions_has_no_parameters():
    tree = ast.parse("if stats is not None:\n    side.synchronize()")
    assert not is_left_out(tree.body[0], tree)


JOIN = """import torch
def f(x, p, {parameter}):
    cur, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(cur)
    with torch.cuda.stream(side):
        s = x @ p
    s.record_stream(cur)
    if stats:
        cur.wait_stream(side)
    return s * 2
"""


@pytest.mark.parametrize(("parameter", "codes"), [("stats=None", {"SYN101"}), ("stats", set())])
def test_a_wait_that_most_calls_skip_orders_nothing(parameter, codes):
    result = lint_source("m.py", Text(JOIN.format(parameter=parameter)))
    assert {finding.rule.code for finding in result.findings} == codes
