"""The active loops of a program, for advice on objects that are created anew in each iteration."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager


class ActiveLoops:
    """The loops that are being iterated, in all active functions."""

    def __init__(self) -> None:
        self._loops: list[ast.stmt] = []

    def __bool__(self) -> bool:
        return bool(self._loops)

    @contextmanager
    def iterating(self, loop: ast.stmt) -> Iterator[None]:
        """Mark a loop as active in a block. A generator's loop may outlast loops that began later."""
        self._loops.append(loop)
        try:
            yield
        finally:
            self._loops.remove(loop)

    def around(self, node: ast.AST) -> bool:
        """Return whether a node is in the source of an active loop itself, rather than in a function that it calls.

        A function that times its argument creates new events in each call, at next to no cost.
        """
        line = getattr(node, "lineno", 0)
        return any(loop.lineno <= line <= (loop.end_lineno or line) for loop in self._loops)
