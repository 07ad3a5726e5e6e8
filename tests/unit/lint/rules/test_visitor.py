"""Rules of projects."""

import subprocess
import sys

import libcst as cst
from libcst import matchers as m

from syncheck.lint.rules.visitor import LintRule
from syncheck.rules.model import Rule, Severity
from tests.unit.lint.rules.syntactic import findings


class Calls(LintRule):
    """Reports calls of one function and all numbers."""

    rule = Rule("ACME1", "calls", Severity.WARNING, "{what} stands here", doc="Calls.")

    @m.visit(m.Call(func=m.Name("f")))
    def look_at_call(self, node: cst.Call) -> None:
        self.report(node, what="a call")

    def visit_Integer(self, node: cst.Integer) -> None:
        self.report(node, what="a number")


def test_methods_visit_nodes_by_name_and_by_matcher():
    found = findings(Calls, "f(1)\ng(x)\n")
    assert sorted(finding.message for finding in found) == ["a call stands here", "a number stands here"]


def test_syncheck_rules_do_not_import_the_matchers():
    program = (
        "import sys, syncheck.lint.syntactic_rules, syncheck.lint.rules.loops; print('libcst.matchers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
