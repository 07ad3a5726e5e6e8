"""Import of the modules with which a project extends syncheck: its own rules, and descriptions of libraries.

Only modules named in the working directory's settings are imported, never those named in the settings of a linted file:
loading code is the user's decision.
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
        folder: the project's folder, which is searched first; "" for the working directory.
        what: the setting that names them, for the error message.

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
                raise ConfigError(f"cannot import module {name!r} (setting `{what}`): {reason}", hint) from error
    return found


@contextmanager
def _on_path(folder: str) -> Iterator[None]:
    """Put a folder first on the import path."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def digest_of(modules: Iterable[ModuleType]) -> str:
    """Return a digest that changes whenever the source of a module changes; "" for no modules."""
    texts = []
    for module in modules:
        try:
            with open(module.__file__ or "", "rb") as file:
                texts.append(hashlib.sha256(file.read()).hexdigest())
        except OSError:
            texts.append(module.__name__)
    return " ".join(texts)
