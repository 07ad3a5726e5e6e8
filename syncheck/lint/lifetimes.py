"""Lifetimes of tensors in an interpreted program: a tensor lives as long as its stand-in, by reference counting.

Python's cycle collector would end some lifetimes at a time that depends on the other allocations of the process. It is
therefore disabled while a program is interpreted, which makes findings reproducible and the analysis a third faster. A
process that only lints runs it between files.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakMethod

T = TypeVar("T")


@contextmanager
def by_reference_count() -> Iterator[None]:
    """Disable the cycle collector in a block, so that only reference counts end lifetimes."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def weakly(method: Callable[[T], None]) -> Callable[[T], None]:
    """Return a function that calls a method while its object is alive, without keeping the object alive."""
    found = WeakMethod(method)

    def call(argument: T) -> None:
        alive = found()
        if alive is not None:
            alive(argument)

    return call


class Collector:
    """Runs the cycle collector between files, in a process that only lints.

    Args:
        most: number of bytes of source after which to collect.
    """

    def __init__(self, most: int = 10_000_000) -> None:
        self._most = most
        self._n_bytes = 0
        self._is_begun = False

    def begin(self) -> None:
        """From now on, collect only in `file_ended`."""
        self._is_begun = True
        gc.freeze()  # everything loaded so far stays alive
        gc.disable()

    def file_ended(self, n_bytes: int) -> None:
        """Collect once enough source has been linted. Collecting after each file would cost more time than it saves."""
        self._n_bytes += n_bytes
        if self._is_begun and self._n_bytes >= self._most:
            self._n_bytes = 0
            gc.collect()
            gc.freeze()  # the survivors are kept for later files
