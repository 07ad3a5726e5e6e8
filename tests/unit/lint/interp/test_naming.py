"""The program's names for objects in findings."""

import pytest

from tests.unit.lint.program import follow

RACE = "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    made = torch.ones(4, device='cuda')\n"


def named(source):
    program = follow(source)
    return {kind: text for (kind, _), text in program.recording.names.items()}, program


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (RACE + "y = made + 1", "made"),
        (RACE + "alias = made\ny = alias + 1", "alias"),  # the line itself uses this name
        (RACE + "d = {'k': made}\ndel made\ny = d['k'] + 1", "d['k']"),
        (RACE + "l = [made]\ndel made\ny = l[0] + 1", "l[0]"),
        (RACE + "class A: pass\na = A()\na.b = made\ndel made\ny = a.b + 1", "a.b"),
        (RACE + "def f(inner):\n    y = inner + 1\nf(made)", "inner"),
    ],
)
def test_the_tensor_of_a_finding_has_its_name_at_that_line(source, name):
    names, program = named(source)
    assert [finding.rule.code for finding in program.machine.findings] == ["SYN101"]
    assert names["allocation"] == name


def test_a_tensor_is_named_once():
    names, program = named(RACE + "y = made + 1\nother = made\nmade.add_(1)\nother.add_(1)")
    assert names["allocation"] == "made"
    assert len(program.machine.named) == 1


def test_a_stream_is_named_at_the_line_where_a_fix_needs_it():
    program = follow(RACE + "def use(t, waited):\n    y = t + 1\nuse(made, s)")
    program.machine.session.report(program.sites)
    (finding,) = program.machine.session.report(program.sites).findings
    assert finding.fix.edits[0].code == "torch.cuda.current_stream().wait_stream(waited)"
    assert finding.fix.edits[0].line == 5
