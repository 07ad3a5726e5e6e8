"""Imports the modules that a project extends syncheck with: rules of its own, and descriptions of libraries.

Only what the settings for the working directory name is imported, never what those of a linted file name: loading code
is the user's decision.
"""

import hashlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType

from syncheck.errors import ConfigError


def import_all(names: Iterable[str], folder: str, what: str) -> list[ModuleType]:
    """Import modules.

    Args:
        names: their names.
        folder: the project's, which is looked in first; "" for the working directory.
        what: what they are to have, for the error.

    Raises:
        ConfigError: one of them cannot be imported.
    """
    found = []
    with _on_path(os.path.abspath(folder)):
        for name in names:
            try:
                found.append(importlib.import_module(name))
            except ConfigError as error:
                raise ConfigError(f"{what} {name}: {error}", error.hint) from None
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                hint = f"name a module that can be imported in {os.path.abspath(folder)}, such as acme.gpu"
                raise ConfigError(f"cannot import the {what} {name}: {reason}", hint) from error
    return found


@contextmanager
def _on_path(folder: str) -> Iterator[None]:
    """Let imports look in a folder first."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def digest_of(modules: Iterable[ModuleType]) -> str:
    """Return what changes whenever the source of a module changes; "" for no modules."""
    texts = []
    for module in modules:
        try:
            with open(module.__file__ or "", "rb") as file:
                texts.append(hashlib.sha256(file.read()).hexdigest())
        except OSError:
            texts.append(module.__name__)
    return " ".join(texts)
