"""Paths as the user knows them."""

import os

_start: list[str] = []


def start_here() -> None:
    """A check begins: paths are shown relative to this working directory, also when the program leaves it."""
    _start[:] = [os.getcwd()]


def start() -> str:
    """Return the folder that shown paths are relative to."""
    return _start[0] if _start else os.getcwd()


def shown(path: str | os.PathLike[str]) -> str:
    """Return a path relative to the folder of `start` where it lies in it, with "/"."""
    path = os.fspath(path)
    try:
        relative = os.path.relpath(path, start())
    except (ValueError, OSError):  # another drive; a working directory that is gone
        return path.replace(os.sep, "/")
    return (path if relative.startswith("..") else relative).replace(os.sep, "/")


def real(path: str | os.PathLike[str]) -> str:
    """Return the absolute path, without links, of one that was shown."""
    return os.path.realpath(os.path.join(start(), path))
