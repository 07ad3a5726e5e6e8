"""What a pattern gets."""

from syncheck.lint.patterns.context import Context
from syncheck.lint.source_file import SourceFile


def test_all_patterns_share_the_call_sites_and_the_tree():
    source = SourceFile("program.py", "x = 1\n")
    context = Context(source, [], [], lambda *_: None, [])
    assert context.sites is context.sites
    assert context.tree is source.tree
