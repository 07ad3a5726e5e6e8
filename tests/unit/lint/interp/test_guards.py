"""Branches that most calls of a function skip."""

import ast

import pytest

from syncheck.lint.interp.decisions import Turn
from syncheck.lint.interp.guards import (
    by_default,
    dispatches,
    grown,
    is_over,
    is_periodic,
    leaves,
    leaves_last,
    looks_ahead,
    may_end_otherwise,
    reads_any,
    turn_of_other,
    used_in,
    waits,
)


def body(text):
    return ast.parse(text).body


@pytest.mark.parametrize(
    ("branch", "expected"),
    [("return", True), ("f()\nraise E", True), ("break", True), ("return\nf()", False), ("f()", False)],
)
def test_a_branch_leaves_through_its_last_statement(branch, expected):
    assert leaves(body(branch)) is expected
    assert not leaves([])


@pytest.mark.parametrize(
    ("source", "taken"),
    [
        ("if a: f()", True),
        ("if a: return", False),
        ("if a: return\nelse: f()", False),
        ("if torch.cuda.is_available(): return 1", True),
        ("if device.type == 'cuda' and torch.cuda.is_available(): return 1", True),
        ("if not use_cuda: f()", False),
        ("if a: return\nelse: return", True),
        ("if a: warnings.warn('x')", False),
        ("if a: warnings.warn('x')\nelse: f()", True),
        ("if a: warn('x')", True),
    ],
)
def test_guards_and_warnings_are_skipped(source, taken):
    assert by_default(body(source)[0]) is taken


def test_code_before_a_return_of_a_callee_may_have_run():
    assert is_over(body("return"), in_callee=False)
    assert not is_over(body("return"), in_callee=True)
    assert is_over(body("raise E"), in_callee=True)
    assert not is_over(body("break"), in_callee=False)
    assert not is_over([], in_callee=False)


def test_names_used_in_a_branch():
    assert used_in(body("x.wait()\nfor a in b: c[d] = e.f")) == set("xabcde")


@pytest.mark.parametrize(("source", "expected"), [("for h in hs:\n    h.wait()", True), ("wait()", False)])
def test_a_loop_may_wait_through_a_method(source, expected):
    assert waits(body(source)) is expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("loss < best", True), ("step > 3", False), ("loss is None", False), ("loss not in known", False),
        ("step and loss > 3", True), ("step and loss is None", False), ("isnan(loss)", True), ("not loss", True),
    ],
)  # fmt: skip
def test_a_condition_may_read_a_variable(test, expected):
    assert reads_any(ast.parse(test, mode="eval").body, {"loss", "total"}) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if b.numel() < n: b = empty(n)", "b"),
        ("if self.b is None or len(self.b) < n:\n    log()\n    self.b = empty(n)", "self.b"),
        ("if b.numel() < n: c = empty(n)", None),
        ("if b.numel() == n: b = empty(n)", None),
        ("if b is None: b = empty(n)", None),
        ("if b.numel() < n: b = empty(n)\nelse: f()", None),
    ],
)
def test_a_branch_replaces_a_buffer_that_is_too_small(source, expected):
    found = grown(body(source)[0])
    assert (found and ast.unparse(found)) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("if last is not None:\n    last.wait()\nlast = start(x)", True),
        ("if last: last.wait()\nlast = start(x)", True),
        ("a, last = pending\nlast.wait()\npending = start(x)", True),
        ("f(x)", True),
        ("x.wait()", False),  # each of the works
        ("if i > 0: last.wait()\nlast = start(x)", False),  # the last iteration may wait, too
        ("if last is not None: last.wait()\nelse: f()\nlast = start(x)", False),
        ("last.wait()", False),  # bound before the loop
        ("last = start(x)\nwith block(): last.wait()", False),
    ],
)
def test_a_loop_waits_only_for_what_the_iteration_before_has_started(steps, expected):
    lines = "".join(f"    {line}\n" for line in steps.split("\n"))
    assert leaves_last(body(f"for x in xs:\n{lines}")[0]) is expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("step % log_every == 0", True), ("not step % self.every", True), ("step % 100 == 0", True),
        ("step > 3 and step % n == 0", True), ("step % 2 == 0", False), ("step % n != 0", False),
        ("step % n == 0 or is_last", False), ("step == n", False), ("step % n", False),
    ],
)  # fmt: skip
def test_a_branch_of_every_nth_iteration_is_periodic(test, expected):
    assert is_periodic(ast.parse(f"if {test}: pass").body[0]) is expected
    assert not is_periodic(ast.parse(f"if {test}: pass\nelse: f()").body[0])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if a: return self.run_a(x)", True), ("if a: return run_a(x)", False), ("if a: return None", False),
        ("if a:\n    f()\n    return self.run_a(x)", False), ("if a: return self.run_a(x)\nelse: f()", False),
    ],
)  # fmt: skip
def test_a_branch_that_returns_what_another_method_returns_dispatches(source, expected):
    assert (
        dispatches(ast.parse("def f(self, a, x):\n    " + source.replace("\n", "\n    ")).body[0].body[0]) is expected
    )


@pytest.mark.parametrize(
    ("branch", "has_work", "expected"),
    [
        ("if a: return self.run_a(x)", False, Turn.FIRST), ("if a: return x", True, Turn.EARLY),
        ("if a: return x", False, Turn.NORMAL), ("if a: raise E", True, Turn.NORMAL), ("if a: f()", True, Turn.NORMAL),
    ],
)  # fmt: skip
def test_the_other_decision_at_a_way_out_comes_early(branch, has_work, expected):
    assert turn_of_other(body(f"def f(self, a, x):\n    {branch}")[0].body[0], has_work=has_work) is expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("    if i + 1 < n: work = start()", True), ("    if i < len(xs) - 1:\n        y = f()", True),
        ("    if i + 1 < n: f()", False), ("    if m < n: work = start()", False), ("    work = start()", False),
        ("    if x: work = start()", False),
    ],
)  # fmt: skip
def test_only_some_iterations_start_work_for_the_next_one(lines, expected):
    loop = body(f"for i, x in enumerate(xs):\n{lines}")[0]
    assert looks_ahead(loop) is expected


def test_a_loop_that_is_cut_may_wait_for_all_work_later():
    (loop,) = body("for x in xs:\n    work.wait()\n    other = start()")
    assert may_end_otherwise(loop, is_cut=True)
    assert not may_end_otherwise(loop, is_cut=False)
    (loop,) = body("for i, x in enumerate(xs):\n    work.wait()\n    if i + 1 < n: work = start()")
    assert may_end_otherwise(loop, is_cut=False)
    (loop,) = body("for i, x in enumerate(xs):\n    if i + 1 < n: work = start()")
    assert not may_end_otherwise(loop, is_cut=True)
