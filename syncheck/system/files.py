"""Reads files, and writes them atomically."""

import contextlib
import errno
import os
import secrets
import stat
import sys
from pathlib import Path

_O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for a writer
_O_BINARY = getattr(os, "O_BINARY", 0)  # keeps Windows from translating line endings
_IN_PLACE_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}


Stamp = tuple[int, int] | None
"""A file's modification time in nanoseconds and its size in bytes; None if it does not exist."""


def stamp(path: str | os.PathLike[str]) -> Stamp:
    """Return a value that changes whenever a file does."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def read(path: str | os.PathLike[str]) -> bytes:
    """Return a file's content.

    Raises:
        OSError: the file cannot be read, or is not a regular file: reading a pipe or a device might never end.
    """
    descriptor = os.open(path, os.O_RDONLY | _O_NONBLOCK | _O_BINARY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def reason_not_writable(path: str | os.PathLike[str]) -> str:
    """Return why a file surely cannot be written, without touching it; "" if there is no reason."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        return "it is a folder"
    if not os.path.isdir(folder) and not os.path.exists(path):
        return f"no such folder: {folder!r}"
    return "" if os.access(path if os.path.exists(path) else folder, os.W_OK) else os.strerror(errno.EACCES)


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file; on failure, the old file is unchanged.

    A link stays a link, and a file keeps its mode and owner. A path that is not a regular file, such as `/dev/stdout`,
    is written to directly.

    Raises:
        OSError: the file cannot be written.
    """
    target = os.path.realpath(path)
    try:
        old = os.stat(path)  # not of `target`: the link /dev/stdout may point to "pipe:[7]", which is no path
    except FileNotFoundError:
        _replace(target, data, None)
        return
    if not stat.S_ISREG(old.st_mode):
        Path(path).write_bytes(data)
        return
    with open(target, "r+b"):  # do not replace a file that is write-protected
        pass
    try:
        _replace(target, data, old)
    except OSError as error:
        if error.errno not in _IN_PLACE_ERRORS:
            raise
        _overwrite(target, data)  # the folder permits no new files, or the file is a mount point


def _replace(target: str, data: bytes, old: os.stat_result | None) -> None:
    """Write a temporary file next to the old one, and rename it over the old one."""
    temporary = os.path.join(os.path.dirname(target), f".syncheck-{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _O_BINARY, 0o666)  # minus the umask
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        if old is not None:
            if sys.platform != "win32":
                with contextlib.suppress(OSError):  # permitted only for root
                    os.chown(temporary, old.st_uid, old.st_gid)
            os.chmod(temporary, stat.S_IMODE(old.st_mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _overwrite(target: str, data: bytes) -> None:
    with open(target, "r+b") as file:
        file.write(data)
        file.truncate()
