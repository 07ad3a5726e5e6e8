"""Functions passed to code that is not followed."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.passed_functions import PassedFunctions
from syncheck.lint.interp.values import UNKNOWN
from syncheck.rules.model import Severity
from tests.unit.lint.program import follow

OUTER = """
import torch
def watch(other, side):
    totals = torch.zeros(3, device="cuda")
    def callback(n):
        with torch.cuda.stream(torch.cuda.Stream()):
            totals.add_(1)
    {}
"""


def found(line, outer=OUTER):
    source = textwrap.dedent(outer).format(line)
    return [
        (f.rule.code, f.level) for f in lint_source("m.py", Text(source)).findings if f.level is not Severity.ADVICE
    ]


@pytest.mark.parametrize(
    "line",
    ["other(callback)", "other(lambda: more(callback))", "other.callback = callback", "return callback", "pass"],
)
def test_a_callback_is_followed_once_and_races_with_its_makers_work_are_warnings(line):
    assert found(line) == [("SYN103", Severity.WARNING)]


def test_a_callbacks_own_mistakes_are_errors():
    outer = OUTER.replace(
        "totals.add_(1)", "mine = torch.zeros(3, device='cuda')\n        mine.add_(1)\n        other(mine)"
    )
    assert found("other(callback)", outer) == [("SYN103", Severity.ERROR)]


def test_work_its_maker_waited_for_is_complete():
    assert found("torch.cuda.synchronize(); other(callback)") == []


def test_a_callback_that_was_called_is_not_followed_again():
    assert (
        found("torch.cuda.synchronize(); callback(1); torch.cuda.synchronize(); totals.add_(1); other(callback)") == []
    )


def test_a_callback_without_its_own_stream_is_not_followed():
    assert found("other(callback)", OUTER.replace("with torch.cuda.stream(torch.cuda.Stream()):", "if True:")) == []


def test_functions_of_the_module_are_followed_separately():
    source = "def f():\n    with torch.cuda.stream(torch.cuda.Stream()):\n        torch.zeros(3, device='cuda')\n"
    program = follow(source)
    passed_functions = PassedFunctions(program.interpreter, set())
    passed_functions.interpret([UNKNOWN, program.scope.names["f"]])
    assert passed_functions.followed == set()
