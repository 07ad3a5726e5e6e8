"""Runs one check of a file in isolation."""

from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.source_file import SourceFile


def found_by(check, source, known=()):
    """Return (code, line) of each finding of a check in a text; () if the check cannot matter for it."""
    if not check.can_matter(source):
        return []
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in check.findings(file.tree, SourceSites(file), list(known))]
