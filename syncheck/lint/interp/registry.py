"""The models of libraries, by the names of their functions and the kinds of their values."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.values import Call, Value

FunctionModel: TypeAlias = Callable[[Evaluator, Call], Value | None]
"""Calls a function; None if it does not know what that does."""
ModuleModel: TypeAlias = Callable[[Evaluator, str, Call], Value | None]
"""Calls one of the functions of a module, by its full name."""
MethodModel: TypeAlias = Callable[[Evaluator, Any, str, Call], Value | None]
"""Calls a method of a value."""

F = TypeVar("F", bound=FunctionModel)
P = TypeVar("P", bound=ModuleModel)
M = TypeVar("M", bound=MethodModel)

_functions: dict[str, FunctionModel] = {}
_modules: dict[str, ModuleModel] = {}
_packages: dict[str, ModuleModel] = {}
_methods: dict[type[Value], MethodModel] = {}
_BACKENDS = re.compile(r"^torch\.(xpu|npu|hpu|musa|mtia|accelerator)\b|^torch_npu\.npu\b")


def models(*names: str) -> Callable[[F], F]:
    """Return a decorator that makes a function the model of functions, by their full names.

    Args:
        names: as in "torch.cuda.Stream"; "*.get_accelerator" for a name in any module.
    """

    def register(model: F) -> F:
        _functions.update(dict.fromkeys(names, model))
        _models_of.cache_clear()
        return model

    return register


def models_in(*modules: str) -> Callable[[P], P]:
    """Return a decorator that makes a function the model of the functions directly in modules that have none."""

    def register(model: P) -> P:
        _modules.update(dict.fromkeys(modules, model))
        _models_of.cache_clear()
        return model

    return register


def models_below(*packages: str) -> Callable[[P], P]:
    """Return a decorator that makes a function the model of all functions below packages that have none."""

    def register(model: P) -> P:
        _packages.update(dict.fromkeys(packages, model))
        _models_of.cache_clear()
        return model

    return register


def models_methods(*kinds: type[Value]) -> Callable[[M], M]:
    """Return a decorator that makes a function the model of the methods of some kinds of values."""

    def register(model: M) -> M:
        _methods.update(dict.fromkeys(kinds, model))
        return model

    return register


def call_by_name(evaluator: Evaluator, path: str, call: Call) -> Value | None:
    """Call a function by its full name; None if it is not known what it does."""
    path, model, below = _models_of(path)
    if model is not None:
        return model(evaluator, call)
    return below(evaluator, path, call) if below is not None else None


@lru_cache(maxsize=4096)
def _models_of(path: str) -> tuple[str, FunctionModel | None, ModuleModel | None]:
    """Return torch's name for a function, its own model, and that of the functions in its module."""
    path = canonical(path)
    head, _, name = path.rpartition(".")
    return path, _functions.get(path) or _functions.get(f"*.{name}"), _model_below(head)


def _model_below(module: str) -> ModuleModel | None:
    """Return the model of the functions in a module that have none of their own."""
    below = _modules.get(module)
    while below is None and module:
        below = _packages.get(module)
        module = module.rpartition(".")[0]
    return below


def call_method(evaluator: Evaluator, owner: Value, name: str, call: Call) -> Value | None:
    """Call a method of a value that is no object of the program; None if it is not known what it does."""
    model = _methods.get(type(owner)) or _methods[Value]
    return model(evaluator, owner, name, call)


@lru_cache(maxsize=4096)
def canonical(path: str) -> str:
    """Return torch's name for what other backends offer under theirs."""
    return _BACKENDS.sub("torch.cuda", path)
