"""Conditions whose value is not known: which branch is taken."""

import ast
import re


class Decisions:
    """Decides open conditions; the same condition is decided in the same way.

    Attributes:
        count: how many there were so far.

    Args:
        given: how the first ones are decided, in their order; all others are true.
    """

    def __init__(self, given: tuple[bool, ...]) -> None:
        self._given = given
        self._made: dict[str, bool] = {}  # text of a condition -> how it was decided
        self.count = 0

    def decide(self, test: ast.expr) -> bool:
        """Return whether a condition is taken to be true."""
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        text = ast.unparse(test.operand if isinstance(test, ast.UnaryOp) and negated else test)
        if text not in self._made:
            number, self.count = self.count, self.count + 1
            wanted = self._given[number] if number < len(self._given) else True
            self._made[text] = wanted != negated
        return self._made[text] != negated

    def forget(self, name: str) -> None:
        """A name stands for something else now: conditions with it are open again."""
        if self._made:
            word = re.compile(rf"\b{re.escape(name)}\b")
            self._made = {text: made for text, made in self._made.items() if not word.search(text)}
