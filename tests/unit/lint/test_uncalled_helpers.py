"""Findings in private functions that nothing in their file mentions."""

import ast
import textwrap

import pytest

from syncheck.findings import Finding, Frame, Location
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.uncalled_helpers import as_warnings
from syncheck.rules.catalogue import find
from syncheck.rules.model import Severity


def level(source, level=Severity.ERROR):
    """Return the level at which a finding in the line with `here` is reported."""
    source = textwrap.dedent(source)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "here" in text)
    made = Finding(find("SYN101"), Location(Frame("a.py", line)), "", level=level)
    (reported,) = as_warnings([made], ast.parse(source), source)
    return reported.level.value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def _f():\n    here", "warning"),
        ("def _f():\n    def g():\n        here", "warning"),
        ("def _f():\n    here\n    _f()", "warning"),
        ("def f():\n    def _g():\n        here", "warning"),
        ("class _A:\n    def f(self):\n        here", "warning"),
        ("class A:\n    def _f(self):\n        here", "warning"),
        ("class A(B):\n    def _f(self):\n        here", "error"),  # the base class may call it
        ("class A:\n    def _f(self):\n        here\n    def g(self):\n        self._f()", "error"),
        ("class A:\n    def __call__(self):\n        here", "error"),
        ("def f():\n    here", "error"),
        ("def f():\n    here\nif __name__ == '__main__':\n    g()", "warning"),
        ("def f():\n    here\nif __name__ == '__main__':\n    f()", "error"),
        ("def test_f():\n    here\nif __name__ == '__main__':\n    g()", "error"),  # pytest calls it
        ("class A:\n    def f(self):\n        here\nA()\nif __name__ == '__main__':\n    g()", "error"),
        ("def f():\n    here\n# f()", "warning"),  # its uses are commented out
        ("class A:\n    def f(self):\n        here\n# a = A()", "warning"),
        ("def f():\n    here\n# f is slow", "error"),
        ("def f():\n    here\nf()\n# f()", "error"),
        ("def _f():\n    here\n# _f(1)", "warning"),
        ("def _f():\n    here\n_f()", "error"),
        ("NAMES = ['_f']\ndef _f():\n    here", "error"),
        ("@register\ndef _f():\n    here", "error"),
        ("here", "error"),
    ],
)
def test_an_error_in_a_private_function_that_nothing_mentions_is_a_warning(source, expected):
    assert level(source) == expected


def test_advice_stays_advice():
    assert level("def _f():\n    here", Severity.ADVICE) == "advice"


SOURCE = """
import torch

def {name}():
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    with torch.cuda.stream(side):
        return x * 2
"""


@pytest.mark.parametrize(("name", "expected"), [("double", {"error"}), ("_double", {"warning"})])
def test_the_linter_reports_it_like_this(name, expected):
    findings = lint_source("m.py", Text(SOURCE.format(name=name))).findings
    assert {finding.level.value for finding in findings if finding.rule.code == "SYN101"} == expected
