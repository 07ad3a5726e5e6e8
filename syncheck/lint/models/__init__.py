"""Models of libraries: the effects of their functions and methods on streams, events and memory.

Each module registers its models with `syncheck.lint.interp.registry`; `load` imports all modules.
"""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Register the models of all modules of this package."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
