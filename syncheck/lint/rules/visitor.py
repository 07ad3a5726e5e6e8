"""Base class of a project's rules: a syntactic rule that visits nodes. libcst's matchers are slow to import."""

from libcst import matchers as m

from syncheck.lint.rules.base import SyntacticRule


class LintRule(SyntacticRule, m.MatcherDecoratableVisitor):
    """A rule that visits the nodes of each definition.

    A subclass sets `rule` and visits nodes, either with methods such as `visit_Call`, or with methods decorated with
    `libcst.matchers.visit`.
    """

    def look(self) -> None:
        """Check the definition by visiting its nodes."""
        self._definition.wrapper.visit(self)
