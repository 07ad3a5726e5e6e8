"""The loops that a program is in, for advice on what it makes anew on each iteration."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager


class ActiveLoops:
    """The loops that are being iterated, of all functions that run."""

    def __init__(self) -> None:
        self._loops: list[ast.stmt] = []

    def __bool__(self) -> bool:
        return bool(self._loops)

    @contextmanager
    def iterating(self, loop: ast.stmt) -> Iterator[None]:
        """A loop is iterated; that of a generator may go on after loops that began later have ended."""
        self._loops.append(loop)
        try:
            yield
        finally:
            self._loops.remove(loop)

    def around(self, node: ast.AST) -> bool:
        """Return whether a node stands in one of them itself, not in a function that it calls.

        A function that times what it is given makes its events anew each time, at next to no cost.
        """
        line = getattr(node, "lineno", 0)
        return any(loop.lineno <= line <= (loop.end_lineno or line) for loop in self._loops)
