"""Read and write files: whole, or not at all."""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)  # to open a pipe waits for who writes to it
_AS_IT_IS = getattr(os, "O_BINARY", 0)  # Windows would change line ends
_NO_NEW_FILE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}


Stamp = tuple[int, int] | None
"""When a file was changed last, in nanoseconds, and its size in bytes; None for one that is not there."""


def stamp(path: str | os.PathLike[str]) -> Stamp:
    """Return what changes when a file does."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def read(path: str | os.PathLike[str]) -> bytes:
    """Return a file's content.

    Raises:
        OSError: it cannot be read, or is no regular file: to read a pipe or a device may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | _WITHOUT_WAITING | _AS_IT_IS)
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


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file; where that fails, the old one is as it was.

    A link stays one, and a file keeps its mode and its owner. What is no regular file, as `/dev/stdout`, is written to.

    Raises:
        OSError: it cannot be written.
    """
    target = os.path.realpath(path)
    try:
        old = os.stat(target)
    except FileNotFoundError:
        _replace(target, data, None)
        return
    if not stat.S_ISREG(old.st_mode):
        Path(target).write_bytes(data)
        return
    with open(target, "r+b"):  # a file that is not to be written to is not replaced either
        pass
    try:
        _replace(target, data, old)
    except OSError as error:
        if error.errno not in _NO_NEW_FILE:
            raise
        _overwrite(target, data)  # its folder takes no other file, or it is mounted by itself


def _replace(target: str, data: bytes, old: os.stat_result | None) -> None:
    """Write a file beside the old one, and let it take that one's place."""
    temporary = os.path.join(os.path.dirname(target), f".syncheck-{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AS_IT_IS, 0o666)  # less the umask
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        if old is not None:
            with contextlib.suppress(OSError, AttributeError):  # only root may, and not on every system
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
