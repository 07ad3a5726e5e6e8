"""Paths as the user knows them."""

import os
from collections.abc import Callable

_start: list[str] = []
_names: list[Callable[[str], str]] = []


def start_here() -> None:
    """A check begins: paths are shown relative to this working directory, also when the program leaves it."""
    _start[:] = [os.getcwd()]


def start() -> str:
    """Return the folder that shown paths are relative to."""
    return _start[0] if _start else os.getcwd()


def name_files(name: Callable[[str], str]) -> None:
    """Show some files by a name that they have for the user: `name` returns it, or "" for other files."""
    _names[:] = [name]


def given_name(path: str) -> str:
    """Return the name that a file has for the user, other than its path; "" if it has none."""
    return next(filter(None, (name(path) for name in _names)), "")


def shown(path: str | os.PathLike[str]) -> str:
    """Return a path relative to the folder of `start` where it lies in it, with "/"; or the name of a cell."""
    path = os.fspath(path)
    if called := given_name(path):
        return called
    try:
        relative = os.path.relpath(path, start())
    except (ValueError, OSError):  # another drive; a working directory that is gone
        return path.replace(os.sep, "/")
    return (path if relative.startswith("..") else relative).replace(os.sep, "/")


def real(path: str | os.PathLike[str]) -> str:
    """Return the absolute path, without links, of one that was shown."""
    return os.path.realpath(os.path.join(start(), path))
