"""Output of `--verbose` on standard error: what was read, what was chosen and why, and how long each part took."""

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from syncheck.system.descriptors import Descriptor


class Details:
    """Prints what a command does, line by line, if requested.

    Args:
        is_wanted: whether to print the lines: with `--verbose`, or without `--quiet` for those that users always want.
        sender: prefix of each line.
    """

    def __init__(self, *, is_wanted: bool, sender: str = "syncheck") -> None:
        self.is_wanted = is_wanted
        self._sender = sender
        self._began = time.perf_counter()
        self._stream = Descriptor(-1)
        if is_wanted and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):  # not a file of the operating system
                self._stream = Descriptor.of_stream(sys.stderr.fileno())

    def write_line(self, text: str) -> None:
        """Write a line; ignore failures to write to standard error."""
        if self.is_wanted:
            with contextlib.suppress(OSError):
                line = text.replace("\n", "\\n")
                self._stream.write(f"{self._sender}: {line}\n".encode("utf-8", "backslashreplace"))

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Print how long a block took."""
        self.begin()
        yield
        self.write_time(what)

    def begin(self) -> None:
        """Start timing."""
        self._began = time.perf_counter()

    def write_time(self, what: str) -> None:
        """Print the time since the last `begin`."""
        self.write_line(f"{what}: {time.perf_counter() - self._began:.2f} s")


NO_DETAILS = Details(is_wanted=False)
