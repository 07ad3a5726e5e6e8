"""Runs an action once a module has been imported. Does not import torch, so that it costs nothing without it.

Source:
    coverage.py uses a similar mechanism for spawned children: coverage/multiproc.py, `Stowaway`.
"""

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def after_import(name: str, act: Callable[[], None]) -> Callable[[], None]:
    """Run an action now if a module has been imported, else once it is; return a function that cancels it.

    Args:
        name: name of the module.
        act: called once.
    """
    if name in sys.modules:
        act()
        return lambda: None
    finder = _AfterImport(name, act)
    sys.meta_path.insert(0, finder)
    return finder.cancel


class _AfterImport(MetaPathFinder, Loader):
    """Runs an action when a module has been imported."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name = name
        self._act = act
        self._is_looking = False

    def cancel(self) -> None:
        """Cancel the action."""
        self._act = lambda: None
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the module's own spec with this loader wrapped around its loader, for an import or another caller."""
        del path, target
        if fullname != self._name or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = find_spec(fullname)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None:
            self._loader = spec.loader
            spec.loader = self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Delegate to the module's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Import the module with its own loader, then run the action."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._act()
