"""Open files of our own in the process of a program that may close them: what it opens then must not get our text.

A daemon closes all descriptors that it does not know (`os.closerange(3, n)`), and the next files that it opens get
their numbers. So ours have high numbers, which are not the next to be given out, and before each use it is checked that
a number still stands for the same file.
"""

import contextlib
import errno
import os
import select
import stat
import sys

_HIGHEST = 512
_RESERVED = 8
_AS_IT_IS = getattr(os, "O_BINARY", 0)  # Windows would change line ends
_Identity = tuple[int, int]


class Descriptor:
    """An open file of ours, to be written to.

    Attributes:
        path: what to open again if the program has closed it; "": nothing.

    Args:
        number: of a descriptor, which belongs to this object from now on; -1 for none.
        path: see there.
        twin: number of another descriptor that stands for the same file; -1 for none.
    """

    def __init__(self, number: int, path: str = "", twin: int = -1) -> None:
        self.path = path
        self._twin = twin
        self._identity = _identity(number)
        self._number = moved_up(number) if self._identity is not None else -1

    @classmethod
    def of_stream(cls, number: int) -> "Descriptor":
        """Return a copy of a standard stream's descriptor; it fails at each use if that is closed."""
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
            OSError: it cannot be opened.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _AS_IT_IS | (os.O_TRUNC if truncate else 0)
        return cls(os.open(path, flags, 0o666), os.path.abspath(path))

    def fileno(self) -> int:
        """Return the number.

        Raises:
            OSError: the program has closed it, and it cannot be opened again.
        """
        if self._identity is None or _identity(self._number) != self._identity:
            self._number = self._found_again()
        return self._number

    def _found_again(self) -> int:
        if self._identity is not None and _identity(self._twin) == self._identity:
            return moved_up(os.dup(self._twin))
        if self._identity is None or not self.path:
            raise OSError(errno.EBADF, "the program has closed it")
        number = os.open(self.path, os.O_WRONLY | os.O_APPEND | _AS_IT_IS)
        if _identity(number) != self._identity:
            os.close(number)
            raise OSError(errno.EBADF, "the program has closed it and put another file in its place")
        return moved_up(number)

    def write(self, data: bytes) -> int:
        """Write all of some data; return how much that is.

        Raises:
            OSError: it cannot be written.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.fileno(), rest) :]
            except BlockingIOError:  # another process has made the stream, which is its own too, so
                select.select([], [self.fileno()], [])
        return len(data)

    @property
    def is_terminal(self) -> bool:
        """Return whether it is a terminal."""
        try:
            return os.isatty(self.fileno())
        except OSError:
            return False

    @property
    def columns(self) -> int:
        """Return the cells of a terminal's line; 0 where that is not known."""
        try:
            return os.get_terminal_size(self.fileno()).columns
        except OSError:
            return 0

    def flush(self) -> None:
        """Do nothing: all is written at once."""

    def close(self) -> None:
        """Close it, unless the program has done so.

        Raises:
            OSError: what was written before has failed.
        """
        number, self._number = self._number, -1
        if self._identity is not None and _identity(number) == self._identity:
            os.close(number)
        self._identity = None


class Reserve:
    """Descriptors that are kept until the report is made: a program may have used up all others."""

    def __init__(self) -> None:
        self._kept: list[Descriptor] = []
        with contextlib.suppress(OSError):
            for _ in range(_RESERVED // 2):
                self._kept += map(Descriptor, os.pipe())  # each end is a file of its own, unlike those of a device

    def release(self) -> None:
        """Let them be used."""
        while self._kept:
            self._kept.pop().close()


def _identity(number: int) -> _Identity | None:
    """Return what a descriptor stands for: device and inode; None if it is closed."""
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def moved_up(number: int) -> int:
    """Return a copy of a descriptor with a high number, and close the other; the same one where there is none left."""
    if sys.platform == "win32":
        return number
    import fcntl  # noqa: PLC0415  not on every system
    import resource  # noqa: PLC0415  as above

    least = min(_HIGHEST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    try:
        high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:
        return number
    os.close(number)
    return high
