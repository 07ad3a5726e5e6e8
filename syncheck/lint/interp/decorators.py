"""Decorators, judging by their names."""

import re
from functools import lru_cache

_CHANGES_NOTHING = re.compile(
    r"(^|\.)(classmethod|abstractmethod|override|final|overload|wraps|compile|script|ignore|unused|export|disable|annotate"
    r"|custom_(fwd|bwd)|once_differentiable|fixture|mark(\.\w+)*|setter|deleter|dataclass|total_ordering|runtime_checkable"
    r"|nvtx\w*|record_function|enable_grad|no_grad|inference_mode)\b|instrument|nvtx"
)
"""Decorators that do not change how a function or a class orders its work."""


@lru_cache(maxsize=4096)
def changes_nothing(decorator: str) -> bool:
    """Return whether a decorator leaves the order of a function's work unchanged."""
    return _CHANGES_NOTHING.search(decorator) is not None


def is_property(decorator: str) -> bool:
    """Return whether a decorator makes a property."""
    return decorator == "property" or decorator.endswith("cached_property")
