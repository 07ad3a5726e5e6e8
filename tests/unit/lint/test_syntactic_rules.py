"""Running syntactic rules on one file."""

from functools import cached_property
from typing import ClassVar

import libcst as cst
import pytest

from syncheck.lint import definitions, syntactic_rules
from syncheck.lint.rules.visitor import LintRule
from syncheck.lint.source_file import SourceFile
from syncheck.lint.syntactic_rules import check
from syncheck.rules.model import Rule, Severity

SOURCE = """\
import torch


def f():
    wrong()


class A:
    def g(self):
        wrong()

    def h(self):
        pass


wrong()
"""


def rule(code="ACME1", words=()):
    return Rule(code, f"rule-{code.lower()}", Severity.ERROR, "wrong", doc="A rule.", words=words)


class Calls(LintRule):
    rule = rule()

    def visit_Call(self, node: cst.Call) -> None:
        if self.code(node.func) == "wrong":
            self.report(node)


def lines(source, *kinds):
    found, problem, left_out = check(SourceFile("program.py", source), kinds)
    assert (problem, left_out) == ("", "")
    return [(finding.rule.code, finding.location.frame.line) for finding in found]


def test_a_rule_is_applied_to_the_whole_file():
    assert sorted(lines(SOURCE, Calls)) == [("ACME1", 5), ("ACME1", 10), ("ACME1", 16)]


def test_without_rules_nothing_is_found():
    assert lines(SOURCE) == []


def test_each_definition_gets_its_own_visitor():
    class Counting(Calls):
        made: ClassVar[list[object]] = []

        def __init__(self, *args):
            super().__init__(*args)
            self.made.append(self)

    lines(SOURCE, Counting)
    assert len(Counting.made) == 4  # the import, the function, the class, the call


@pytest.mark.parametrize(("is_whole", "classes"), [(True, ["A"]), (False, [])])
def test_a_rule_receives_whole_classes_or_individual_members(is_whole, classes):
    class Seeing(Calls):
        looks_at_classes = is_whole
        seen: ClassVar[list[str]] = []
        methods: ClassVar[list[str]] = []

        def visit_ClassDef(self, node: cst.ClassDef) -> None:
            self.seen.append(node.name.value)

        def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
            self.methods.append(node.name.value)

    assert sorted(lines(SOURCE, Seeing)) == [("ACME1", 5), ("ACME1", 10), ("ACME1", 16)]
    assert [name for name in Seeing.seen if name == "A"] == classes
    assert sorted(Seeing.methods) == ["f", "g", "h"]


def test_only_definitions_with_a_word_of_the_rule_are_parsed(monkeypatch):
    parsed = []
    parse = definitions.Definition.wrapper.func
    noting = cached_property(lambda self: [parsed.append(self.text), parse(self)][1])
    noting.__set_name__(definitions.Definition, "wrapper")
    monkeypatch.setattr(definitions.Definition, "wrapper", noting)
    kind = type("Kind", (Calls,), {"rule": rule(words=("wrong", "never"))})
    assert len(lines(SOURCE.replace("def f():\n    wrong()", "def f():\n    right()"), kind)) == 2
    assert parsed
    assert all("wrong" in text for text in parsed)


def test_a_failing_rule_is_named_and_other_rules_still_run():
    class Failing(LintRule):
        rule = rule("ACME2")

        def visit_Call(self, node: cst.Call) -> None:
            raise KeyError("a mistake")

    found, problem, _ = check(SourceFile("program.py", SOURCE), [Failing, Calls])
    assert problem == "line 4: the rule ACME2 failed: KeyError: 'a mistake'"
    assert {finding.rule.code for finding in found} == {"ACME1"}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (
            cst.ParserSyntaxError("unknown", lines=[""], raw_line=1, raw_column=0),
            "not checked to the end: findings in syntax",
        ),
        (RecursionError(), "not followed to the end: findings in code that is nested too deeply"),
    ],
)
def test_what_libcst_cannot_parse_is_left_out_and_noted(monkeypatch, error, note):
    def refuse(self):
        raise error

    monkeypatch.setattr(definitions.Definition, "wrapper", property(refuse))
    found, problem, left_out = check(SourceFile("program.py", SOURCE), [Calls])
    assert (found, problem) == ([], "")
    assert left_out.startswith(note)


class StateCollector(LintRule):
    rule = rule("ACME3")
    states: ClassVar[list[object]] = []

    def visit_Call(self, node: cst.Call) -> None:
        if self.code(node.func) == "probe":
            self.states.append(self.gpu_state(node.args[0].value))


def states_collected(source):
    StateCollector.states.clear()
    assert lines(source, StateCollector) == []
    return StateCollector.states


def test_a_file_is_followed_once_and_only_for_rules_that_need_states(monkeypatch):
    followed = []
    record = syntactic_rules._record
    monkeypatch.setattr(syntactic_rules, "_record", lambda source, found: (followed.append(1), record(source, found)))
    lines(SOURCE, Calls)
    assert followed == []
    source = "import torch\nprobe(torch.cuda.Stream())\ndef f(): probe(1)\n"
    assert [state is not None for state in states_collected(source)] == [True, True]
    assert followed == [1]


def test_a_state_is_available_even_in_otherwise_irrelevant_code():
    (state,) = states_collected("import torch\n\n\ndef f(x):\n    probe(x)\n")
    assert state.current_stream.is_default
