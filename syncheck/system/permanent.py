"""Imports whose objects live until the process ends."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def permanent_imports() -> Iterator[None]:
    """Exempt the objects that a block creates by imports, and all older ones, from cycle collection.

    The collector would examine the hundreds of thousands of objects of torch's modules several times during the import,
    and again with each full collection of the program.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
