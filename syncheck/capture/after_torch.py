"""Does something in a process as soon as it has imported torch. Free of torch: who needs none pays nothing.

Source:
    coverage.py measures spawned children in a like way: coverage/multiproc.py, `Stowaway`.
"""

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def after_torch(act: Callable[[], None]) -> None:
    """Act now if torch has been imported, else when it has."""
    if "torch" in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _AfterTorch(act))


class _AfterTorch(MetaPathFinder, Loader):
    """Acts when torch has been imported."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return torch's own spec, with this loader around its loader."""
        del path, target
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._loader = spec.loader
            spec.loader = self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let torch's own loader decide."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Import torch, then act."""
        self._loader.exec_module(module)
        self._act()
