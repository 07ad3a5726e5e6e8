"""Searches a file for one pattern in isolation, or runs all checks on it."""

import ast

from syncheck.lint import deferred
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.patterns.context import Context
from syncheck.lint.source_file import SourceFile

TIMED = """
def bench(model, x, n):
    start = time.perf_counter()
    {work}
    return time.perf_counter() - start
"""
HEAD = "import time\nimport torch\nimport torch.distributed as dist\n"


def context_of(source, known=(), *, functions=None, classes=None, find_class=lambda *_: None):
    """Return a file as a pattern gets it, with all its functions and classes unless they are given."""
    body = source.tree.body
    if functions is None:
        functions = deferred.functions(body)
    if classes is None:
        classes = [node for node in body if isinstance(node, ast.ClassDef)]
    return Context(source, list(functions), list(classes), find_class, list(known))


def found_by(pattern, source, known=()):
    """Return (code, line) of each finding of a pattern in a text; () if the pattern cannot matter for it."""
    if not pattern.can_matter(source):
        return []
    found = pattern.findings(context_of(SourceFile("file.py", source), known))
    return [(finding.rule.code, finding.location.frame.line) for finding in found]


def found_with_levels(source):
    """Return (code, level) of each finding in a text, which names `time`, `torch` and `dist` without imports."""
    result = lint_source("m.py", Text(HEAD + source))
    assert not result.problem, result.problem
    return [(finding.rule.code, finding.level.value) for finding in result.findings]
