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
        (RACE + "d = {k: made for k in f()}\ndel made\ny = list(d.values())[0] + 1", "d[...]"),
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


def advised(source):
    """Return the code of the fix of a program's only finding."""
    program = follow(source)
    (finding,) = program.machine.session.report(program.sites).findings
    return finding.fix.edits[0].code


RING = """
copy = torch.cuda.Stream()
buffers = [torch.zeros(8, device="cuda") for _ in range(2)]
copied = [torch.cuda.Event() for _ in range(2)]
copy.wait_stream(torch.cuda.current_stream())
def fill(number):
    with torch.cuda.stream(copy):
        buffers[number % 2].mul_(2)
        copied[number % 2].record()
fill(0)
fill(1)
"""


@pytest.mark.parametrize("index", ["slot", "number % 2", "(slot + 2) % 2"])
def test_an_event_is_named_by_the_index_of_its_slot(index):
    source = f"for number in range(2):\n    slot = number % 2\n    buffers[{index}] + 1"
    assert advised(RING + source) == f"torch.cuda.current_stream().wait_event(copied[{index}])"
