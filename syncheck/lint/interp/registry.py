"""Registry of the models of libraries, by function name and kind of value."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.values import Call, Value

FunctionModel: TypeAlias = Callable[[Evaluator, Call], Value | None]
"""Models a call of a function; returns None if it does not cover the call."""
ModuleModel: TypeAlias = Callable[[Evaluator, str, Call], Value | None]
"""Models a call of any function of a module, by its full name."""
MethodModel: TypeAlias = Callable[[Evaluator, Any, str, Call], Value | None]
"""Models a call of a method of a value."""

F = TypeVar("F", bound=FunctionModel)
P = TypeVar("P", bound=ModuleModel)
M = TypeVar("M", bound=MethodModel)

_functions: dict[str, FunctionModel] = {}
_modules: dict[str, ModuleModel] = {}
_packages: dict[str, ModuleModel] = {}
_methods: dict[type[Value], MethodModel] = {}
_BACKENDS = re.compile(r"^torch\.(xpu|npu|hpu|musa|mtia|accelerator)\b|^torch_npu\.npu\b")


def models(*names: str) -> Callable[[F], F]:
    """Return a decorator that registers a model of functions, by their full names.

    Args:
        names: such as "torch.cuda.Stream"; "*.get_accelerator" for a name in any module.
    """

    def register(model: F) -> F:
        _functions.update(dict.fromkeys(names, model))
        _models_of.cache_clear()
        return model

    return register


def models_in(*modules: str) -> Callable[[P], P]:
    """Return a decorator that registers a model of the functions of modules that have no model of their own."""

    def register(model: P) -> P:
        _modules.update(dict.fromkeys(modules, model))
        _models_of.cache_clear()
        return model

    return register


def models_below(*packages: str) -> Callable[[P], P]:
    """Return a decorator that registers a model of all functions below packages that have no model of their own."""

    def register(model: P) -> P:
        _packages.update(dict.fromkeys(packages, model))
        _models_of.cache_clear()
        return model

    return register


def models_methods(*kinds: type[Value]) -> Callable[[M], M]:
    """Return a decorator that registers a model of the methods of some kinds of values."""

    def register(model: M) -> M:
        _methods.update(dict.fromkeys(kinds, model))
        return model

    return register


def call_by_name(evaluator: Evaluator, path: str, call: Call) -> Value | None:
    """Call a function by its full name; return None if no model covers the call."""
    path, model, below = _models_of(path)
    if model is not None:
        return model(evaluator, call)
    return below(evaluator, path, call) if below is not None else None


@lru_cache(maxsize=4096)
def _models_of(path: str) -> tuple[str, FunctionModel | None, ModuleModel | None]:
    """Return torch's name for a function, the function's own model, and the model of its module."""
    path = canonical(path)
    head, _, name = path.rpartition(".")
    return path, _functions.get(path) or _functions.get(f"*.{name}"), _model_below(head)


def _model_below(module: str) -> ModuleModel | None:
    """Return the model of a module's functions that have no model of their own."""
    below = _modules.get(module)
    while below is None and module:
        below = _packages.get(module)
        module = module.rpartition(".")[0]
    return below


def call_method(evaluator: Evaluator, owner: Value, name: str, call: Call) -> Value | None:
    """Call a method of a value that is not an object of the program; return None if no model covers the call."""
    model = _methods.get(type(owner)) or _methods[Value]
    return model(evaluator, owner, name, call)


@lru_cache(maxsize=4096)
def canonical(path: str) -> str:
    """Return torch.cuda's name for a function of another backend."""
    return _BACKENDS.sub("torch.cuda", path)
