"""Models: what the functions of libraries, and the methods of their values, do to streams, events and memory.

Each module registers its own with `syncheck.lint.interp.registry`; `load` imports all of them.
"""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Register the models of all modules of this package."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
