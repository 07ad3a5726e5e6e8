"""Decorators, judging by their names."""

import re
from functools import lru_cache

from syncheck.lint.interp.values import Function

_CHANGES_NOTHING = re.compile(
    r"(^|\.)(classmethod|abstractmethod|override|final|overload|wraps|compile|script|ignore|unused|export|disable|annotate"
    r"|custom_(fwd|bwd)|once_differentiable|fixture|mark(\.\w+)*|setter|deleter|dataclass|total_ordering|runtime_checkable"
    r"|nvtx\w*|record_function|enable_grad|no_grad|inference_mode|support_torch_compile|maybe_allow_in_graph)\b|instrument|nvtx"
)
"""Decorators that do not change how a function or a class orders its work."""
_REGISTERING = re.compile(r"(^|\.|_)register(_\w+)?\b|^add_\w+docstrings\b|\bpersistent_class\b")
"""Decorators of other code that return what they get: those of registries, and those that add texts."""


@lru_cache(maxsize=4096)
def changes_nothing(decorator: str) -> bool:
    """Return whether a decorator leaves the order of a function's work unchanged."""
    return _CHANGES_NOTHING.search(decorator) is not None


@lru_cache(maxsize=4096)
def returns_its_argument(decorator: str) -> bool:
    """Return whether a decorator of other code returns the function or class that it gets, judging by its name."""
    return _REGISTERING.search(decorator) is not None


def marks(decorator: str, function: Function) -> bool:
    """Return whether a decorator of Python only changes what kind of method a function is, and change it."""
    is_property = decorator == "property" or decorator.endswith("cached_property")
    if decorator not in {"staticmethod", "classmethod"} and not is_property:
        return False
    function.is_static, function.is_of_class = decorator == "staticmethod", decorator == "classmethod"
    function.is_property, function.is_cached = is_property, decorator.endswith("cached_property")
    return True
