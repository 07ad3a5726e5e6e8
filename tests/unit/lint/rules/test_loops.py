"""Shared functions of the loop rules."""

import libcst as cst
import pytest

from syncheck.lint.rules.loops import LoopRule, always_made, expression_of, receivers, statements
from syncheck.rules.model import Rule, Severity
from tests.unit.lint.rules.syntactic import lines


def code(node):
    return cst.Module([]).code_for_node(node)


def loop(body):
    source = "for x in y:\n" + "".join(f"    {line}\n" for line in body.splitlines())
    (made,) = cst.parse_module(source).body
    return made


def always(body):
    return [code(call) for call in always_made(loop(body).body)]


class Loops(LoopRule):
    rule = Rule("ACME1", "loops", Severity.WARNING, "a loop", doc="Loops.")

    def check_loop(self, loop):
        self.report(loop)


def test_each_loop_of_a_file_is_checked_once():
    source = """
        for a in b:
            while c:
                pass
        async def f():
            async for d in e:
                pass
        class C:
            def g(self):
                while True:
                    [i for i in j]
    """
    assert lines(Loops, source) == [2, 3, 6, 10]


# -- calls made on every iteration


@pytest.mark.parametrize(
    "body",
    [
        "if x is None: continue\nf(1)",
        "if step % 100: g()\nf(1)",
        "a = b if f(1) else c",
        "a = f(1) or b",
        "a = [f(1) for b in c]",
        "f(1)",
        "a = f(1)",
        "a: int = f(1)",
        "a += f(1)",
        "with b:\n    f(1)",
        "with b, c:\n    with d: f(1)",
        "a; f(1)",
    ],
)
def test_an_unconditional_call_is_made_on_every_iteration(body):
    assert "f(1)" in always(body)


def test_calls_inside_calls_are_made_too():
    assert always("f(g(1), h=[k(2)])") == ["f(g(1), h=[k(2)])", "g(1)", "k(2)"]


@pytest.mark.parametrize(
    "body",
    ["if a: f(1)", "for a in b: f(1)", "while a: f(1)", "try: f(1)\nfinally: pass", "def g(): f(1)", "g = lambda: f(1)",
     "return f(1)", "assert f(1)", "with syncheck.allow_sync('logs'): f(1)",
     "with allow_sync('logs'):\n    with b: f(1)",
     "with b, syncheck.allow_sync('logs'): f(1)", "a = f(1) if b else None", "a = b and f(1)", "a = b or g(h, f(1))",
     "a = [f(1) for b in c if d]", "if step % 100: continue\nf(1)", "if step % 100 != 0:\n    g()\n    continue\nf(1)"],
)  # fmt: skip
def test_a_conditional_or_allowed_call_is_not_made_on_every_iteration(body):
    assert "f(1)" not in always(body)


@pytest.mark.parametrize("context", ["other.allow_sync('a')", "syncheck.ignore('SYN801')", "allow_sync"])
def test_other_blocks_allow_nothing(context):
    assert "f(1)" in always(f"with {context}: f(1)")


def test_a_loop_in_a_block_whose_waits_are_intended_is_not_checked():
    source = "with syncheck.allow_sync('logs'):\n    for a in b: pass\nwith other():\n    while c: pass\n"
    assert lines(Loops, source) == [4]


def test_a_function_defined_in_such_a_block_may_run_elsewhere():
    source = "with syncheck.allow_sync('logs'):\n    def f():\n        for a in b: pass\n    while c: pass\n"
    assert lines(Loops, source) == [3]


def test_a_block_in_a_function_that_is_defined_in_such_a_block_counts():
    source = """
        with syncheck.allow_sync('logs'):
            def f():
                with syncheck.allow_sync('more'):
                    for a in b: pass
                for c in d: pass
    """
    assert lines(Loops, source) == [6]


# -- receivers and expressions


def test_receivers_of_a_method_are_found_anywhere_in_a_loop():
    body = "if a:\n    x.loss.backward()\nfor b in c: y[0].backward(1)\nz.forward()\nbackward()\ndef f(): w.backward()"
    assert [code(node) for node in receivers(loop(body), "backward")] == ["x.loss", "y[0]"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a()\nb = 1; c()", ["a()", "", "c()"]), ("if a: b()\n1", ["", "1"]), ("return; a.b()", ["", "a.b()"]),
    ],
)  # fmt: skip
def test_a_statement_may_be_an_expression(body, expected):
    found = [expression_of(statement) for statement in statements(loop(body).body)]
    assert ["" if expression is None else code(expression) for expression in found] == expected


def test_a_single_line_block_has_the_statements_of_its_line():
    (made,) = cst.parse_module("while a: b(); c = 1").body
    assert [type(statement).__name__ for statement in statements(made.body)] == ["Expr", "Assign"]
