"""Functions in place of builtin ones, which behave alike as attributes of classes and in pickles."""

import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Static = staticmethod[..., Any]
else:  # not subscriptable at run time
    _Static = staticmethod


class Builtin(_Static):
    """A function in place of a builtin one: as an attribute of a class, it does not bind to the object."""

    __module__: str
    __qualname__: str

    @property  # type: ignore[misc]  # read-only, as in a proxy
    def __class__(self) -> type:
        """The class of builtin functions, which libraries look for: `torch._dynamo.utils.is_function`."""
        return BuiltinFunctionType

    def __reduce__(self) -> str:
        return self.__qualname__  # like a builtin function, it is pickled by its name


_FUNCTIONS = (FunctionType, Builtin)
_BUILTINS = (BuiltinFunctionType, Builtin)  # in CPython, `BuiltinMethodType` is the same type


def in_place_of(original: Any, function: Any) -> Any:
    """Return a function as it is to replace another one: like a builtin function if that is one."""
    is_builtin = isinstance(original, _BUILTINS)
    return Builtin(function) if is_builtin and isinstance(function, FunctionType) else function


def rename(owner: Any, name: str, value: Any) -> None:
    """Name a function or class after the attribute that it replaces, so that it can be pickled.

    Args:
        owner: the module or class that has the attribute. It has the value by now.
        name: the attribute.
        value: the function, or a class of ours; anything else keeps its name.

    Source:
        Lib/pickle.py, `save_global`: the object must be found under its name.
    """
    is_ours = isinstance(value, type) and value.__module__.startswith("syncheck.")
    if not (is_ours or isinstance(value, _FUNCTIONS)):
        return
    if isinstance(owner, ModuleType):
        wanted = owner.__name__, name
    elif isinstance(owner, type):
        wanted = owner.__module__, f"{owner.__qualname__}.{name}"
    else:
        return
    if (value.__module__, value.__qualname__) != wanted and not _is_found(value):
        value.__module__, value.__qualname__ = wanted


def _is_found(value: Any) -> bool:
    """Return whether an object is found under its name.

    The `__getattr__` of torch's modules is not called: it takes longer than everything else here.
    """
    found: Any = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found is value
