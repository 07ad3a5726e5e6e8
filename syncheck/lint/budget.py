"""The number of statements that are interpreted in one file, so that no file takes minutes.

The limits count statements instead of seconds: the same file gives the same findings on every machine.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

MOST = 80_000
"""Maximum number of statements to interpret in one file. They take about 5 s; see `bench/RESULTS.md`."""
_MOST_OF_OTHERS = 6_000
"""Number of statements in further paths through one function after which no other path is begun."""
_SHARE_OF_OTHERS = 0.5
"""Share of the statements of a file after which no further path is begun. The rest is for code not reached so far."""


class Budget:
    """The statements that may still be interpreted in a file.

    Attributes:
        is_exceeded: whether any code was left out because of the limit.

    Args:
        most: the limit.
    """

    def __init__(self, most: int = MOST) -> None:
        self.is_exceeded = False
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
        self.is_exceeded |= not is_left
        return is_left

    def affordable(self, paths: Iterable[T]) -> Iterator[T]:
        """Yield further paths through code of which one path has been interpreted, while they cost little.

        The first path finds most. Leaving out others does not count as leaving out code.
        """
        limit = min(self._n_used + _MOST_OF_OTHERS, self._most * _SHARE_OF_OTHERS)
        for path in paths:
            if self._n_used >= limit:
                return
            yield path
