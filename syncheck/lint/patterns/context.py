"""What a pattern is searched for in, and what makes a module one."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from syncheck.findings import Finding
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.nodes import FindClass, Method
from syncheck.lint.source_file import SourceFile


@dataclass(frozen=True)
class Context:
    """A file in which patterns are searched for.

    Attributes:
        source: the file.
        functions: its functions that are not nested in another function.
        classes: its top-level classes that contain an anchor; see `prefilter.anchor_lines`.
        find_class: finds classes of other files by their full names.
        known: the findings so far: those on paths through the file, and those of the patterns searched for before. They
            are more specific than another finding in the same line.
    """

    source: SourceFile
    functions: Sequence[Method]
    classes: Sequence[ast.ClassDef]
    find_class: FindClass
    known: list[Finding]

    @property
    def tree(self) -> ast.Module:
        """The syntax tree of the file."""
        return self.source.tree

    @cached_property
    def sites(self) -> SourceSites:
        """The call sites of the file."""
        return SourceSites(self.source)


class Pattern(Protocol):
    """A mistake that the syntax of a file shows, without following its paths: a module of this package."""

    __name__: str

    def can_matter(self, source: str, /) -> bool:
        """Return whether a file may contain the mistake. It is fast, and most files have none."""
        ...

    def findings(self, context: Context, /) -> Iterator[Finding]:
        """Yield the mistakes in a file."""
        ...
