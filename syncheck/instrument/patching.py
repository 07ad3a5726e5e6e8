"""Replaces attributes for the duration of a run, and restores them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from syncheck.instrument.named import in_place_of, rename

_MISSING = object()


class Patches:
    """Attributes that were replaced, in order."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._replaced: dict[int, tuple[Any, Any]] = {}  # id of a replacement -> (the replacement, the original)
        self._last: list[Callable[[], None]] = []
        self._sizes: dict[str, int] | None = None  # sizes of torch's modules at the first call of `everywhere`
        self._in_one_pass, self._n_modules = False, 0

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace an attribute; return its previous value, or None."""
        before = vars(owner).get(name, _MISSING)
        self._undo.append((owner, name, before))
        if isinstance(owner, ModuleType):
            value = in_place_of(before, value)
        setattr(owner, name, value)
        rename(owner, name, value)
        return getattr(owner, name, None) if before is _MISSING else before

    def remove(self, owner: Any, name: str) -> None:
        """Remove an attribute."""
        self._undo.append((owner, name, vars(owner)[name]))
        delattr(owner, name)

    def everywhere(self, replacements: dict[Any, Any]) -> None:
        """Replace objects in all of torch's modules that hold them, including through `from x import y`."""
        self._replaced |= {id(new): (new, old) for old, new in replacements.items()}
        if not self._in_one_pass or self._n_modules != len(sys.modules):
            self._n_modules = len(sys.modules)
            _modules.look()
        if self._sizes is None:
            self._sizes = dict(_modules.sizes)
        for module, attribute, old in _references(tuple(replacements)):
            self.set(module, attribute, replacements[old])

    @contextmanager
    def in_one_pass(self) -> Iterator[None]:
        """Look for changed modules only once in a block that replaces objects and adds none to torch's modules."""
        self._in_one_pass, self._n_modules = True, 0
        try:
            yield
        finally:
            self._in_one_pass = False

    def on_undo(self, action: Callable[[], None]) -> None:
        """Run an action after everything has been restored."""
        self._last.append(action)

    def undo(self) -> None:
        """Restore everything, latest first, including in modules of torch that have been imported since."""
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        for module in self._changed_modules():
            for attribute, value in list(vars(module).items()):
                found = self._replaced.get(id(value))
                if found is not None and found[0] is value:
                    setattr(module, attribute, found[1])
        self._sizes = None
        while self._last:
            self._last.pop()()

    def _changed_modules(self) -> list[ModuleType]:
        """Return the modules of torch that were imported, or finished importing, since objects were replaced."""
        sizes = self._sizes
        if sizes is None:
            return []
        return [module for name, module in _torch_modules().items() if sizes.get(name) != len(module.__dict__)]


def _torch_modules() -> dict[str, ModuleType]:
    # A list of names instead of pairs: creating thousands of tuples would start the garbage collector.
    names = [name for name in list(sys.modules) if name.startswith("torch")]
    modules = ((name, sys.modules.get(name)) for name in names if name == "torch" or name.startswith("torch."))
    return {name: module for name, module in modules if module is not None}


class _Modules:
    """torch's modules, and those that have changed: they were imported, or have grown or shrunk.

    Attributes:
        sizes: name -> number of attributes, at the last look.
        changes: name and module of each change so far, in order.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.changes: list[tuple[str, ModuleType]] = []
        self._known: dict[str, ModuleType] = {}

    def look(self) -> None:
        """Note what has changed since the last look. It takes 2 milliseconds (2026-11-28)."""
        modules = _torch_modules()
        for name in self.sizes.keys() - modules.keys():
            del self.sizes[name], self._known[name]
        for name, module in modules.items():
            size = len(module.__dict__)
            if self.sizes.get(name) != size or self._known[name] is not module:
                self.sizes[name], self._known[name] = size, module
                self.changes.append((name, module))


class _Search:
    """References to given objects in torch's modules; a module is searched once, and again if it has changed.

    Searching all of them takes 5 milliseconds (2026-11-23), too long for each of the windows of a budget.
    """

    def __init__(self, objects: tuple[Any, ...]) -> None:
        self._objects = {id(one): one for one in objects}  # keeps them alive, so that their ids stay unique
        self._n_seen = 0
        self._found: dict[tuple[str, str], ModuleType] = {}

    def references(self, modules: _Modules) -> list[tuple[ModuleType, str, Any]]:
        """Return (module, name, object) of each reference."""
        for name, module in modules.changes[self._n_seen :]:
            self._search_module(name, module)
        self._n_seen = len(modules.changes)
        found = [(module, name, vars(module).get(name)) for (_, name), module in self._found.items()]
        return [reference for reference in found if self._objects.get(id(reference[2])) is reference[2] is not None]

    def _search_module(self, module_name: str, module: ModuleType) -> None:
        values = list(vars(module).values())
        if self._objects.keys().isdisjoint(map(id, values)):  # most modules; twice as fast as the loop below
            return
        for name, value in list(vars(module).items()):
            if self._objects.get(id(value)) is value and value is not None:
                self._found[module_name, name] = module


_modules = _Modules()
_searches: dict[tuple[int, ...], _Search] = {}
_MAX_SEARCHES = 64


def _references(objects: tuple[Any, ...]) -> list[tuple[ModuleType, str, Any]]:
    key = tuple(map(id, objects))
    if key not in _searches:
        if len(_searches) >= _MAX_SEARCHES:  # mostly replacements made by nested checks
            _searches.clear()
        _searches[key] = _Search(objects)
    return _searches[key].references(_modules)
