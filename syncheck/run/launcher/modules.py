"""Find the module that `python -m NAME` would run, without importing its parent packages."""

import itertools
import sys
from importlib.machinery import ModuleSpec

from syncheck.errors import ScriptError

from .source import data_of
from .state import working_directory


def find_module(name: str) -> ModuleSpec | None:
    """Find a module, or the `__main__` of a package.

    Returns:
        The spec; None if only importing its packages can show whether it exists.

    Raises:
        ScriptError: there is no such module.
    """
    spec = _search(name)
    if spec is None or spec.submodule_search_locations is None:
        return spec
    try:
        return _search(f"{name}.__main__")
    except ScriptError as error:
        hint = "add a __main__.py to it, or name one of its modules"
        raise ScriptError(f"the package {name!r} has no __main__ and cannot be run", hint) from error


def _search(name: str) -> ModuleSpec | None:
    spec: ModuleSpec | None = None
    if "" in name.split("."):
        raise _missing(name)
    for full_name in itertools.accumulate(name.split("."), "{}.{}".format):
        try:
            found = _ask_finders(full_name, _locations(spec, name))
        except KeyError:  # a namespace package inside a package that is not imported
            return None
        if found is None and spec is not None and _extends_its_path(spec):
            return None
        if found is None:
            raise _missing(name)
        spec = found
    return spec


def _locations(package: ModuleSpec | None, name: str) -> list[str] | None:
    """Return the search locations of a package; None at the top level."""
    if package is None:
        return None
    if package.submodule_search_locations is None:
        raise _missing(name)
    return list(package.submodule_search_locations)


def _ask_finders(full_name: str, locations: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(full_name, locations)
        if spec is not None:
            return spec
    return None


def _extends_its_path(package: ModuleSpec) -> bool:
    """Return whether the package may extend its search path once it is imported."""
    if package.origin is None:
        return False
    source = data_of(package)
    return source is None or b"__path__" in source


def _missing(name: str) -> ScriptError:
    if name.endswith(".py"):
        return ScriptError(f"no module named {name!r}", "a script is named by its path, without -m")
    hint = f"modules are looked for in {working_directory()!r} and among the packages of {sys.executable}"
    return ScriptError(f"no module named {name!r}", hint)
