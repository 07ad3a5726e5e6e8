"""Paths as the user knows them."""

import os


def shown(path: str | os.PathLike[str]) -> str:
    """Return a path relative to the working directory where it lies in it, with "/"."""
    path = os.fspath(path)
    try:
        relative = os.path.relpath(path)
    except (ValueError, OSError):  # another drive; a working directory that is gone
        return path.replace(os.sep, "/")
    return (path if relative.startswith("..") else relative).replace(os.sep, "/")
