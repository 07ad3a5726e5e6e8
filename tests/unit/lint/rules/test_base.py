"""The base class of syntactic rules."""

from typing import ClassVar

import libcst as cst
import pytest

from syncheck.findings import Applicability, Edit, EditKind, Fix
from syncheck.lint.rules.base import nodes_below, own_nodes
from syncheck.lint.rules.visitor import LintRule
from syncheck.rules.model import Rule, Severity
from tests.unit.lint.rules.syntactic import findings

FIX = Fix((Edit(EditKind.INSERT_BEFORE, "program.py", 1, 0, "pass"),), Applicability.UNSAFE)


def rule(message="{what} is called"):
    return Rule("ACME1", "calls", Severity.WARNING, message, doc="Calls.")


class Probes(LintRule):
    """Collects results of a base class method for each argument of `probe`."""

    rule = rule()
    answers: ClassVar[list[object]] = []

    def answer(self, node):
        raise NotImplementedError

    def visit_Call(self, node: cst.Call) -> None:
        if self.code(node.func) == "probe":
            self.answers.append(self.answer(node.args[0].value))


def answers(answer, source):
    kind = type("Kind", (Probes,), {"answers": [], "answer": answer})
    assert findings(kind, source) == []
    return kind.answers


def reporting(**arguments):
    """Return a rule that reports each call of `wrong`, with these arguments of `report`."""

    def visit_Call(self, node: cst.Call) -> None:
        if self.code(node.func) == "wrong":
            given = {name: make(node) if callable(make) else make for name, make in arguments.items()}
            self.report(node, **given)

    return type("Kind", (LintRule,), {"rule": rule(), "visit_Call": visit_Call})


# -- reports


def test_a_report_is_a_lint_finding_at_the_node():
    (found,) = findings(reporting(what="`wrong`", help="remove it", fix=FIX), "def f():\n    x = wrong(\n        1)\n")
    frame = found.location.frame
    assert (frame.path, frame.function, frame.source) == ("program.py", "f", "    x = wrong(")
    assert (frame.line, frame.column, frame.end_line, frame.end_column) == (2, 9, 3, 11)
    assert (found.message, found.help, found.fix, found.source) == ("`wrong` is called", "remove it", FIX, "lint")
    assert (found.rule.code, found.level, found.related) == ("ACME1", Severity.WARNING, ())


def test_facts_are_converted_to_text():
    (found,) = findings(reporting(what=3), "wrong()\n")
    assert found.message == "3 is called"


def test_related_nodes_have_messages():
    kind = reporting(what="x", related=lambda node: [(node.args[0].value, "this one"), (node.func, "called here")])
    (found,) = findings(kind, "wrong(abc)\n")
    assert [(location.message, location.frame.column, location.frame.end_column) for location in found.related] == [
        ("this one", 7, 10), ("called here", 1, 6),
    ]  # fmt: skip


@pytest.mark.parametrize("facts", [{}, {"what": "x", "other": "y"}])
def test_unexpected_or_missing_facts_are_rejected(facts):
    class Strict(LintRule):
        rule = rule()

        def visit_Call(self, node: cst.Call) -> None:
            with pytest.raises(ValueError, match="ACME1 takes the facts"):
                self.report(node, **facts)

    assert findings(Strict, "wrong()\n") == []


def test_a_rule_receives_whole_classes_by_default():
    class Classes(LintRule):
        rule = rule()

        def visit_ClassDef(self, node: cst.ClassDef) -> None:
            self.report(node, what=node.name.value)

    assert [found.message for found in findings(Classes, "class A:\n    def f(self): pass\n")] == ["A is called"]


# -- names and code


@pytest.mark.parametrize(
    ("imports", "expression", "name"),
    [
        ("import torch", "torch.cuda.Stream", "torch.cuda.Stream"),
        ("import torch", "torch.cuda.Stream(0)", "torch.cuda.Stream"),
        ("import torch as t", "t.cuda", "torch.cuda"),
        ("from torch import cuda", "cuda.empty_cache()", "torch.cuda.empty_cache"),
        ("from torch.cuda import Stream as S", "S", "torch.cuda.Stream"),
        ("import torch", "self.torch.cuda", ""),
        ("import torch", "other.cuda", ""),
        ("import torch", "torch.cuda[0].x", ""),
        ("import torch", "f().x", ""),
        ("import torch", "3", ""),
    ],
)
def test_a_full_name_follows_the_imports(imports, expression, name):
    assert answers(LintRule.full_name, f"{imports}\nprobe({expression})\n") == [name]


def test_the_code_of_a_node_is_its_source():
    assert answers(LintRule.code, "probe( a +  b )\n") == ["a +  b"]


# -- GPU states


def test_the_gpu_state_is_available_at_an_expression():
    source = """
        import torch
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            probe(side)
        def never(x):
            return
            probe(x)
    """
    at, nowhere = answers(LintRule.gpu_state, source)
    assert (at.current_stream.name, at.stream.name) == ("side", "side")
    assert nowhere is None


# -- nodes


def names(source):
    return [node.value for node in own_nodes(cst.parse_module(source)) if isinstance(node, cst.Name)]


def test_nodes_of_nested_functions_and_classes_are_not_own_nodes():
    assert names("a = b\nif c:\n    d()\n") == ["a", "b", "c", "d"]
    assert names("a\ndef f(x): y\nclass C(D): z\ng = lambda u: v\nb\n") == ["a", "g", "b"]


def test_own_nodes_of_a_function_include_its_body():
    (function,) = cst.parse_module("def f(x):\n    y\n    def g(): z\n").body
    found = [node for node in own_nodes(function) if isinstance(node, cst.Name | cst.FunctionDef)]
    assert [node.value if isinstance(node, cst.Name) else node.name.value for node in found] == ["f", "x", "y", "g"]


def test_nodes_below_equals_libcsts_traversal_without_spaces_and_comments():
    module = cst.parse_module(
        "@d\nclass A(B, c=1):\n    def f(x: int = 2, *y) -> t:\n        return [z for z in y if x]  # w\n"
    )

    def below(node):
        return [inner for child in node.children for inner in (child, *below(child))]

    kinds = (cst.BaseExpression, cst.BaseStatement, cst.BaseSmallStatement, cst.Arg, cst.Param, cst.CompFor)
    expected = [node for node in below(module) if isinstance(node, kinds)]
    found = list(nodes_below(module, lambda _: True))
    assert {id(node) for node in found if isinstance(node, kinds)} == set(map(id, expected))
    assert not any(isinstance(node, cst.Comment | cst.BaseParenthesizableWhitespace) for node in found)
