"""Runs a single syntactic rule on a text."""

import textwrap

from syncheck.lint.source_file import SourceFile
from syncheck.lint.syntactic_rules import check


def findings(kind, source):
    """Return all findings of a rule in a text."""
    found, problem, _ = check(SourceFile("program.py", textwrap.dedent(source)), [kind])
    assert problem == ""
    return found


def found(kind, source):
    """Return the line and source of each finding."""
    text = textwrap.dedent(source).splitlines()
    sites = [finding.location.frame for finding in findings(kind, source)]
    return [(site.line, text[site.line - 1][site.column - 1 : site.end_column - 1]) for site in sites]


def lines(kind, source):
    """Return the lines of all findings."""
    return [line for line, _ in found(kind, source)]
