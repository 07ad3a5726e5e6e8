"""Comparisons that show whether a container is full."""

import ast

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.active_loops import ActiveLoops
from syncheck.lint.interp.capacities import by_size
from syncheck.lint.interp.values import UNKNOWN, Constant

LOOP = ast.parse("for x in xs:\n    f(x)").body[0]


def outcome(text, left, right, *, decided=True):
    loops = ActiveLoops()
    with loops.iterating(LOOP):
        found = by_size(ast.parse(text, mode="eval").body, left, right, loops, lambda _: decided)
    return None if found is None else found.value


@pytest.mark.parametrize(
    ("text", "at_one", "at_two"),
    [
        ("len(q) > n", False, True),
        ("len(q) >= n", False, True),
        ("len(q) < n", True, False),
        ("len(q) <= n", True, False),
    ],
)
def test_a_container_is_full_with_two_elements(text, at_one, at_two):
    assert [outcome(text, Constant(count), UNKNOWN) for count in (1, 2)] == [at_one, at_two]


def test_the_limit_may_come_first():
    assert outcome("n < len(q)", UNKNOWN, Constant(2)) is True
    assert outcome("n >= len(q)", UNKNOWN, Constant(1)) is True


@pytest.mark.parametrize("text", ["len(q) == n", "size(q) > n", "len(q) != n"])
def test_other_comparisons_do_not_show_it(text):
    assert outcome(text, Constant(2), UNKNOWN) is None


def test_on_another_path_the_outcome_is_unknown():
    assert outcome("len(q) > n", Constant(2), UNKNOWN, decided=False) is None


def test_outside_loops_the_outcome_is_unknown():
    node = ast.parse("len(q) > n", mode="eval").body
    assert by_size(node, Constant(2), UNKNOWN, ActiveLoops(), lambda _: True) is None


WINDOW = """import torch
from collections import deque
def feed(source, device, ahead):
    side = torch.cuda.Stream()
    window = deque()
    for batch in source:
        with torch.cuda.stream(side):
            moved = batch.to(device, non_blocking=True)
            ready = side.record_event()
        window.append((moved, ready))
        if len(window) > ahead:
            moved, ready = window.popleft()
            torch.cuda.current_stream().wait_event(ready)
            moved.record_stream(torch.cuda.current_stream())
            yield moved
    while window:
        moved, ready = window.popleft()
        {wait}
        moved.record_stream(torch.cuda.current_stream())
        yield moved
"""


@pytest.mark.parametrize(
    ("wait", "codes"), [("pass", ["SYN101"]), ("torch.cuda.current_stream().wait_event(ready)", [])]
)
def test_what_is_left_in_a_window_must_be_waited_for_too(wait, codes):
    found = lint_source("a.py", Text(WINDOW.format(wait=wait))).findings
    assert [finding.rule.code for finding in found] == codes
