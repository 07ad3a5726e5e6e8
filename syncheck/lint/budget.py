"""The number of statements that are interpreted in one file, so that no file takes minutes, and what was left out.

The limits count statements instead of seconds: the same file gives the same findings on every machine.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

MOST = 80_000
"""Maximum number of statements to interpret in one file. They take about 5 s; see `bench/RESULTS.md`."""
TOO_MUCH = f"not followed to the end: findings after {MOST:,} interpreted statements are missing"
TOO_DEEP = "not followed to the end: findings in code that is nested too deeply are missing"
_MOST_OF_OTHERS = 6_000
"""Number of statements in further paths through one function after which no other path is begun."""
_SHARE_OF_OTHERS = 0.5
"""Share of the statements of a file after which no further path is begun. The rest is for code not reached so far."""


_DEPTH = 3_000
"""Number of Python calls that may be nested while a file is followed. A nested call of the program takes up to 80."""


@contextmanager
def nesting() -> Iterator[None]:
    """Allow equally deep recursion in a block for every caller: the same file gives the same findings everywhere."""
    limit, depth = sys.getrecursionlimit(), 0
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  inspect.stack() reads source files
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(max(limit, depth + _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class Budget:
    """The statements that may still be interpreted in a file.

    Attributes:
        left_out: what was left out, as a note; "" if nothing was.

    Args:
        most: the limit.
    """

    def __init__(self, most: int = MOST) -> None:
        self.left_out = ""
        self._most = most
        self._n_used = 0

    def use(self, n_statements: int) -> None:
        """Count interpreted statements."""
        self._n_used += n_statements

    def restart(self) -> None:
        """Allow as many statements again, for another pass over the file."""
        self._n_used = 0

    def is_left(self) -> bool:
        """Return whether more code may be interpreted."""
        is_left = self._n_used < self._most
        if not is_left:
            self.left_out = TOO_MUCH
        return is_left

    def too_deep(self) -> None:
        """Note that code was left out because it is nested too deeply."""
        self.left_out = self.left_out or TOO_DEEP

    def affordable(self, paths: Iterable[T]) -> Iterator[T]:
        """Yield further paths through code of which one path has been interpreted, while they cost little.

        The first path finds most. Leaving out others does not count as leaving out code.
        """
        limit = min(self._n_used + _MOST_OF_OTHERS, self._most * _SHARE_OF_OTHERS)
        for path in paths:
            if self._n_used >= limit:
                return
            yield path
