"""Runs one check of a file in isolation, or all of them."""

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.source_file import SourceFile

TIMED = """
def bench(model, x, n):
    start = time.perf_counter()
    {work}
    return time.perf_counter() - start
"""
HEAD = "import time\nimport torch\nimport torch.distributed as dist\n"


def found_by(check, source, known=()):
    """Return (code, line) of each finding of a check in a text; () if the check cannot matter for it."""
    if not check.can_matter(source):
        return []
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in check.findings(file.tree, SourceSites(file), list(known))]


def found_with_levels(source):
    """Return (code, level) of each finding in a text, which names `time`, `torch` and `dist` without imports."""
    result = lint_source("m.py", Text(HEAD + source))
    assert not result.problem, result.problem
    return [(finding.rule.code, finding.level.value) for finding in result.findings]
