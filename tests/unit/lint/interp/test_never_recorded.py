"""Elapsed times of events that were never recorded."""

import ast

import pytest

from syncheck.lint.interp.never_recorded import report_never_recorded
from syncheck.lint.interp.values import Event
from tests.unit.lint.program import new_program

SOURCE = """
def time(step, hook):
    begin = torch.cuda.Event(enable_timing=True)
    {more}
    step()
    return begin.elapsed_time(None)
"""


def calls(tree, name):
    """Return the first call of a method."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return next(node for node in found if isinstance(node.func, ast.Attribute) and node.func.attr == name)


def is_reported(more="pass", **fields):
    program = new_program(SOURCE.format(more=more))
    made, asked = (calls(program.tree, name) for name in ("Event", "elapsed_time"))
    event = Event(9, **{"made": program.machine.site(made), **fields})
    program.machine.session.event(9, event.made, timing=True)
    said = report_never_recorded(program.machine, event, asked)
    assert said == bool(program.machine.findings)
    return said


def test_an_event_that_is_never_recorded_is_reported():
    assert is_reported()


@pytest.mark.parametrize("fields", [{"recorded": (1, 2, "f")}, {"escaped": True}, {"made": None}])
def test_a_recorded_or_escaped_event_is_not_reported(fields):
    assert not is_reported(**fields)


@pytest.mark.parametrize(
    "more",
    [
        "hook(lambda: begin.record())",
        "def start():\n        torch.cuda.current_stream().record_event(begin)",
        "hook(begin.record)",
        "hook(begin)",
        "hook(event=begin)",
        "for each in hook:\n        each[0].record()",
        "for turn in range(50):\n        if turn == 40:\n            begin.record()",
    ],
)
def test_an_event_that_other_code_may_record_is_not_reported(more):
    assert not is_reported(more)


def test_nothing_is_reported_in_an_ordering_only_branch():
    program = new_program(SOURCE.format(more="pass"))
    program.machine.ordering_only = 1
    assert not report_never_recorded(program.machine, Event(9, made=program.machine.site(program.tree)), program.tree)
