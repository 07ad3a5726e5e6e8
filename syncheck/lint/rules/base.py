"""Base class of the syntactic rules, which check the libcst tree of one definition and can query the GPU state."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import ClassVar

import libcst as cst

from syncheck.findings import Finding, Fix, Location
from syncheck.lint.definitions import Definition
from syncheck.lint.gpu_state import GpuState, GpuStates
from syncheck.lint.source_file import SourceFile
from syncheck.rules.model import Rule


class SyntacticRule:
    """A rule that the linter checks on the syntax of the source.

    It is instantiated for each top-level definition of a file that contains one of the rule's trigger words, or for
    every definition if the rule has no such words.

    Attributes:
        rule: the rule that it reports.
        looks_at_classes: whether it gets classes as a whole, rather than their members one by one, which is faster.
        found: the findings reported so far.
    """

    rule: ClassVar[Rule]
    looks_at_classes: ClassVar[bool] = True

    def __init__(self, source: SourceFile, definition: Definition, states: GpuStates) -> None:
        super().__init__()
        self.found: list[Finding] = []
        self._source = source
        self._definition = definition
        self._states = states

    @classmethod
    def may_find(cls, text: str) -> bool:
        """Return whether the rule may find anything in a text. Called before parsing, for texts with a trigger word."""
        del text
        return True

    def look(self) -> None:
        """Check the definition."""
        raise NotImplementedError

    def report(
        self,
        node: cst.CSTNode,
        *,
        help: str = "",  # noqa: A002  as in Finding
        fix: Fix | None = None,
        related: Sequence[tuple[cst.CSTNode, str]] = (),
        **facts: object,
    ) -> None:
        """Report a node.

        Args:
            node: the primary location.
            help: advice on what to do.
            fix: the fix as data.
            related: other nodes, each with a message.
            facts: the values of the placeholders in the rule's message.

        Raises:
            ValueError: a fact is missing, or the message has no placeholder for it.
        """
        others = tuple(replace(self.location(other), message=text) for other, text in related)
        finding = Finding.of(self.rule, self.location(node), **{name: str(value) for name, value in facts.items()})
        self.found.append(replace(finding, help=help, fix=fix, related=others, source="lint"))

    def gpu_state(self, node: cst.CSTNode) -> GpuState | None:
        """Return the GPU state when the program evaluates an expression; None if the linter never gets there."""
        where = self._definition.position(node)
        return self._states.at(where.start.line, where.start.column, where.end.line, where.end.column)

    def location(self, node: cst.CSTNode) -> Location:
        """Return the location of a node, as for the edits of a fix."""
        line, column, end_line, end_column = self._definition.span(node)
        return self._source.location(line, column + 1, end_line, end_column + 1, self._definition.function_at(line))

    def full_name(self, node: cst.CSTNode) -> str:
        """Return the full name of a function or module according to the file's imports: "torch.cuda.empty_cache".

        Returns:
            "" for names that are not imported.
        """
        name = node.func if isinstance(node, cst.Call) else node
        parts: list[str] = []
        while isinstance(name, cst.Attribute):
            parts.append(name.attr.value)
            name = name.value
        root = self._source.imports.get(name.value) if isinstance(name, cst.Name) else None
        return ".".join([root, *reversed(parts)]) if root is not None else ""

    def code(self, node: cst.CSTNode) -> str:
        """Return the source of a node without the comments around it."""
        return self._definition.wrapper.module.code_for_node(node).strip()


def own_nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes below a node, except whitespace, comments, and the contents of nested functions and classes."""
    return nodes_below(node, lambda inner: not is_definition(inner))


def is_definition(node: cst.CSTNode) -> bool:
    """Return whether a node is a function or a class."""
    return isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda)


def nodes_below(node: cst.CSTNode, is_entered: Callable[[cst.CSTNode], bool]) -> Iterator[cst.CSTNode]:
    """Yield the nodes below a node in source order, descending only into those that `is_entered` accepts.

    Whitespace and comments are left out.
    """
    waiting = list(_children(node))[::-1]
    while waiting:
        inner = waiting.pop()
        yield inner
        if is_entered(inner):
            waiting += list(_children(inner))[::-1]


_SPACES = re.compile(r"whitespace|leading_lines|trailing|lines_after|[lr]par$|header$|footer$|comma$|semicolon$")


@cache
def _parts(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Return the fields of a kind of node that may contain code."""
    return tuple(field.name for field in fields(kind) if not _SPACES.match(field.name))


def _children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the direct children of a node. `node.children` takes ten times as long because it runs a visitor."""
    for name in _parts(type(node)):
        part = getattr(node, name)
        for child in part if isinstance(part, list | tuple) else (part,):
            if isinstance(child, cst.CSTNode):
                yield child
