"""Replace attributes for the time of a run, and put them back."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_MISSING = object()


class Patches:
    """Attributes that were replaced, in order."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._replaced: dict[int, tuple[Any, Any]] = {}  # id of a replacement -> (it, what it replaces)
        self._last: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace an attribute; return what was there, or None."""
        before = vars(owner).get(name, _MISSING)
        self._undo.append((owner, name, before))
        setattr(owner, name, value)
        return getattr(owner, name, None) if before is _MISSING else before

    def remove(self, owner: Any, name: str) -> None:
        """Take an attribute away."""
        self._undo.append((owner, name, vars(owner)[name]))
        delattr(owner, name)

    def everywhere(self, replacements: dict[Any, Any]) -> None:
        """Replace objects wherever torch's modules hold them under their own name, as `from x import y` leaves them."""
        by_id = {id(old): (old, new) for old, new in replacements.items()}
        self._replaced |= {id(new): (new, old) for old, new in replacements.items()}
        for module in _torch_modules():
            for attribute, value in list(vars(module).items()):
                found = by_id.get(id(value))
                if found is not None and found[0] is value:
                    self.set(module, attribute, found[1])

    def finally_do(self, action: Callable[[], None]) -> None:
        """Do something when everything is put back."""
        self._last.append(action)

    def undo(self) -> None:
        """Put everything back, the latest first, also in modules of torch that were imported since."""
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        for module in _torch_modules():
            for attribute, value in list(vars(module).items()):
                found = self._replaced.get(id(value))
                if found is not None and found[0] is value:
                    setattr(module, attribute, found[1])
        while self._last:
            self._last.pop()()


def _torch_modules() -> list[ModuleType]:
    modules = list(sys.modules.items())
    return [module for name, module in modules if name.partition(".")[0] == "torch"]
