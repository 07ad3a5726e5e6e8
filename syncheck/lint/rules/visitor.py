"""What a project's rule is: a rule of shape that visits nodes. The matchers of libcst take long to import."""

from libcst import matchers as m

from syncheck.lint.rules.base import ShapeRule


class LintRule(ShapeRule, m.MatcherDecoratableVisitor):
    """A rule that visits the nodes of each definition.

    A subclass sets `rule` and visits nodes: by methods `visit_Call`, or by methods with the decorator
    `libcst.matchers.visit`.
    """

    def look(self) -> None:
        """Look at the definition: visit its nodes."""
        self._definition.wrapper.visit(self)
