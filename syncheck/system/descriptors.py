"""Our own file descriptors, kept usable and unambiguous in a process whose program may close them.

A daemon closes all descriptors that it does not own (`os.closerange(3, n)`), and the next files that it opens reuse
their numbers. Our descriptors therefore have high numbers, which are not reused first, and before each use it is
checked that a number still refers to the same file.
"""

import contextlib
import errno
import os
import select
import stat
import sys

_HIGHEST = 512
_RESERVED = 8
_O_BINARY = getattr(os, "O_BINARY", 0)  # keeps Windows from translating line endings
_Identity = tuple[int, int]


class Descriptor:
    """An open file for writing.

    Attributes:
        path: the path to reopen if the program has closed the file; "" if it cannot be reopened.

    Args:
        number: a descriptor, which this object takes ownership of; -1 for none.
        path: see above.
        twin: another descriptor of the same file; -1 for none.
    """

    def __init__(self, number: int, path: str = "", twin: int = -1) -> None:
        self.path = path
        self._twin = twin
        self._identity = _identity(number)
        self._number = moved_up(number) if self._identity is not None else -1

    @classmethod
    def of_stream(cls, number: int) -> "Descriptor":
        """Return a copy of a standard stream's descriptor; every use fails if the stream is closed."""
        identity = _identity(number)
        if identity is None:
            return cls(-1)
        mode, path = os.fstat(number).st_mode, ""
        if stat.S_ISREG(mode) or stat.S_ISCHR(mode):
            with contextlib.suppress(OSError):
                path = os.readlink(f"/proc/self/fd/{number}")
        return cls(os.dup(number), path, number)

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], *, truncate: bool = False) -> "Descriptor":
        """Open a file for appending.

        Raises:
            OSError: the file cannot be opened.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _O_BINARY | (os.O_TRUNC if truncate else 0)
        return cls(os.open(path, flags, 0o666), os.path.abspath(path))

    def fileno(self) -> int:
        """Return the descriptor's number.

        Raises:
            OSError: the program has closed the file, and it cannot be reopened.
        """
        if self._identity is None or _identity(self._number) != self._identity:
            self._number = self._found_again()
        return self._number

    def _found_again(self) -> int:
        if self._identity is not None and _identity(self._twin) == self._identity:
            return moved_up(os.dup(self._twin))
        if self._identity is None or not self.path:
            raise OSError(errno.EBADF, "the program has closed it")
        number = os.open(self.path, os.O_WRONLY | os.O_APPEND | _O_BINARY)
        if _identity(number) != self._identity:
            os.close(number)
            raise OSError(errno.EBADF, "the program has replaced it by another file")
        return moved_up(number)

    def write(self, data: bytes) -> int:
        """Write all data; return its length.

        Raises:
            OSError: the data cannot be written.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.fileno(), rest) :]
            except BlockingIOError:  # another process that shares the stream has made it non-blocking
                select.select([], [self.fileno()], [])
        return len(data)

    @property
    def is_terminal(self) -> bool:
        """Return whether the file is a terminal."""
        try:
            return os.isatty(self.fileno())
        except OSError:
            return False

    @property
    def columns(self) -> int:
        """Return the width of the terminal in columns; 0 if unknown."""
        try:
            return os.get_terminal_size(self.fileno()).columns
        except OSError:
            return 0

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def close(self) -> None:
        """Close the file, unless the program has already closed it.

        Raises:
            OSError: an earlier write has failed.
        """
        number, self._number = self._number, -1
        if self._identity is not None and _identity(number) == self._identity:
            os.close(number)
        self._identity = None


class Reserve:
    """Descriptors reserved for writing the report, in case the program has used up all others."""

    def __init__(self) -> None:
        self._kept: list[Descriptor] = []
        with contextlib.suppress(OSError):
            for _ in range(_RESERVED // 2):
                self._kept += map(Descriptor, os.pipe())  # each pipe end has its own identity, unlike device files

    def release(self) -> None:
        """Release the reserved descriptors for use."""
        while self._kept:
            self._kept.pop().close()


def _identity(number: int) -> _Identity | None:
    """Return the device and inode of a descriptor; None if it is closed."""
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def moved_up(number: int) -> int:
    """Move a descriptor to a high number and return it; return the original number if none is free."""
    if sys.platform == "win32":
        return number
    import fcntl  # noqa: PLC0415  not available on every system
    import resource  # noqa: PLC0415  likewise

    least = min(_HIGHEST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    try:
        high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:
        return number
    os.close(number)
    return high
