"""Additional findings of `--strict`."""

from dataclasses import replace

import pytest

from syncheck.findings import Applicability, Edit, EditKind, Finding, Fix, Frame, Location
from syncheck.lint.interp.premises import Premise, Premises
from syncheck.lint.interp.values import Function
from syncheck.lint.strict import PASSES, assumed_arguments, is_likely, more, with_premises_first
from syncheck.rules.catalogue import find
from syncheck.rules.model import Severity
from tests.unit.lint.program import new_program

CHOSEN = "conditions that are not known are as on one path through the program"


def finding(*assumptions, code="SYN101", line=5):
    rule = find(code)
    return Finding(rule, Location(Frame("a.py", line)), "message", level=rule.severity, assumptions=assumptions)


def shown(findings, known=()):
    return [(f.rule.code, f.location.frame.line, f.message, f.level.value) for f in more(findings, known)]


def test_a_finding_is_a_warning_that_states_its_assumptions():
    assert shown([finding("`x` is on a GPU", "`s` is None", CHOSEN)]) == [
        ("SYN101", 5, "message, if `x` is on a GPU and `s` is None", "warning")
    ]
    (made,) = more([finding("a", CHOSEN)], [])
    assert made.assumptions == ("a", CHOSEN)


def test_known_findings_are_left_out():
    assert shown([finding("a")], [finding()]) == []
    assert shown([finding("a")], [finding(line=6), finding(code="SYN102")]) != []


@pytest.mark.parametrize(("kind", "most"), [(Premise.DEVICE, 2), (Premise.CODE, 2), (Premise.BRANCH, 1)])
def test_findings_with_no_or_too_many_premises_are_left_out(kind, most):
    premises = ("a", "b", "c")
    likely = [is_likely(finding(*premises[:number], CHOSEN), frozenset((kind,))) for number in range(4)]
    assert likely == [0 < number <= most for number in range(4)]


def test_a_clock_finding_does_not_rest_on_unknown_code():
    likely = {kind: is_likely(finding("a", code="SYN701"), frozenset((kind,))) for kind in Premise}
    assert likely == {Premise.DEVICE: True, Premise.CODE: False, Premise.BRANCH: True}


def test_advice_is_not_given_on_assumptions():
    assert find("SYN801").severity is Severity.ADVICE
    assert shown([finding("a", code="SYN801")]) == []


def test_of_findings_at_a_line_the_one_with_the_fewest_assumptions_is_reported():
    findings = [finding("a", "b"), finding("c"), finding("d"), finding("e", code="SYN102")]
    assert [message for _, _, message, _ in shown(findings)] == ["message, if c", "message, if e"]


def test_a_fix_becomes_an_example():
    fix = Fix((Edit(EditKind.INSERT_BEFORE, "a.py", 5, 0, "s.wait()"),), Applicability.SAFE)
    (made,) = more([replace(finding("a"), fix=fix)], [])
    assert made.fix is not None
    assert made.fix.applicability is Applicability.EXAMPLE


def test_findings_get_the_premises_of_their_place():
    texts = {("SYN101", Frame("a.py", 5)): ("a",)}
    findings = [finding("b"), finding("b", line=6), finding("b", code="SYN102")]
    found = with_premises_first(findings, texts, Premises(), frozenset())
    assert [each.assumptions for each in found] == [("a", "b"), ("b",), ("b",)]


def test_findings_about_unknown_code_are_warnings_without_the_option():
    texts = {("SYN101", Frame("a.py", 5)): ("a",), ("SYN701", Frame("a.py", 5)): ("a",)}
    texts |= {("SYN805", Frame("a.py", 5)): ("a",)}
    findings = [finding(), finding(line=6), finding(code="SYN701"), finding(code="SYN805")]
    premises = Premises()
    premises.assume_of_code("a")
    found = list(with_premises_first(findings, texts, premises, frozenset()))
    assert [(each.message, each.level.value) for each in found] == [("message, if a", "warning"), ("message", "error")]


def test_a_clock_misses_the_work_of_a_network():
    texts = {(code, Frame("a.py", 5)): ("a",) for code in ("SYN101", "SYN701")}
    premises = Premises()
    premises.assume_of_code("a", is_network=True)
    found = list(with_premises_first([finding(), finding(code="SYN701")], texts, premises, frozenset()))
    assert [(each.rule.code, each.message) for each in found] == [("SYN101", "message, if a"), ("SYN701", "message")]


@pytest.mark.parametrize("kinds", [frozenset[Premise](), *PASSES])
def test_parameters_are_on_a_gpu_if_devices_are_assumed(kinds):
    program = new_program("def f(x: torch.Tensor, n): pass")
    program.sites.premises = type(program.sites.premises)(kinds)
    made = assumed_arguments(program.machine, Function(program.tree.body[0], program.scope))
    assert list(made) == (["x"] if Premise.DEVICE in kinds else [])
    assert [call for call in program.calls if call.startswith("launch")] == (
        ["launch cuda:0 the caller's work w1"] if made else []
    )
