"""Paths as shown to the user."""

import os
from collections.abc import Callable

_start: list[str] = []
_names: list[Callable[[str], str]] = []


def remember_start() -> None:
    """Show paths relative to the current working directory from now on, even if the program changes it."""
    _start[:] = [os.getcwd()]


def start() -> str:
    """Return the folder to which shown paths are relative."""
    return _start[0] if _start else os.getcwd()


def set_name_lookup(name: Callable[[str], str]) -> None:
    """Show some files under a user-visible name: `name` returns it, or "" for other files."""
    _names[:] = [name]


def name_of_file(path: str) -> str:
    """Return the user-visible name of a file that differs from its path; "" if it has none."""
    return next(filter(None, (name(path) for name in _names)), "")


def display_path(path: str | os.PathLike[str]) -> str:
    """Return a path as shown: relative to the folder of `start` if it is inside, with "/"; or the name of a cell."""
    path = os.fspath(path)
    if called := name_of_file(path):
        return called
    try:
        relative = os.path.relpath(path, start())
    except (ValueError, OSError):  # another drive, or a working directory that was deleted
        return path.replace(os.sep, "/")
    return (path if relative.startswith("..") else relative).replace(os.sep, "/")


def relative_path(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> str:
    """Return a path relative to a folder, with "/"; the path itself if they are on different drives of Windows."""
    try:
        path = os.path.relpath(path, folder)
    except ValueError:
        path = os.fspath(path)
    return path.replace(os.sep, "/")


def real_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path, with symbolic links resolved, of a shown path."""
    return os.path.realpath(os.path.join(start(), path))
