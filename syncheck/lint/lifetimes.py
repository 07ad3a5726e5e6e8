"""How long a tensor lives in a program that is only read: as long as its stand-in, by Python's reference count.

Python's collector of cycles would end some lives at a time that depends on what else the process has allocated. So it
is off while a program is followed, which makes findings repeatable, and the analysis a third faster. A process that
only lints runs it between files.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakMethod

T = TypeVar("T")


@contextmanager
def by_reference_count() -> Iterator[None]:
    """Let nothing but reference counts end lives in a block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def weakly(method: Callable[[T], None]) -> Callable[[T], None]:
    """Return a function that calls a method as long as its object lives, and does not keep that alive."""
    found = WeakMethod(method)

    def call(argument: T) -> None:
        alive = found()
        if alive is not None:
            alive(argument)

    return call


class Collector:
    """Collects cycles between files, in a process that only lints.

    Args:
        most: bytes of source after which it collects.
    """

    def __init__(self, most: int = 10_000_000) -> None:
        self._most = most
        self._n_bytes = 0
        self._is_begun = False

    def begin(self) -> None:
        """Collect in `file_ended` alone from here on."""
        self._is_begun = True
        gc.freeze()  # what is loaded stays
        gc.disable()

    def file_ended(self, n_bytes: int) -> None:
        """Collect once some files of source were linted; once for each file would take longer than it saves."""
        self._n_bytes += n_bytes
        if self._is_begun and self._n_bytes >= self._most:
            self._n_bytes = 0
            gc.collect()
            gc.freeze()  # what is left is kept for other files
