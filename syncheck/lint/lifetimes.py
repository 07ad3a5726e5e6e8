"""How long a tensor lives in a program that is only read: as long as its stand-in, by Python's reference count.

Python's collector of cycles would end some lives at a time that depends on what else the process has allocated. So it
is off while a program is followed, which makes findings repeatable, and the analysis a third faster.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def by_reference_count() -> Iterator[None]:
    """Let nothing but reference counts end lives in a block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
