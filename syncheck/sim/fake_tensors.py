"""Tensors without memory that a program makes in a FakeTensorMode of its own: torch makes and moves them by itself.

The modes that torch enters inside, to compute shapes for DTensor or a graph, stay as they are: their tensors must look
like the ones on the CPU that stand for those of a GPU.
"""

import sys
from functools import wraps
from typing import Any
from weakref import WeakSet

from torch._subclasses.fake_tensor import FakeTensorMode

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import fake_mode
from syncheck.source.lines import is_user_file

_of_programs: WeakSet[FakeTensorMode] = WeakSet()


class Modes:
    """The modes that programs enter themselves; `were_entered`: there has been one."""

    were_entered = False


def install(patches: Patches) -> None:
    """Note the modes that the program enters itself."""
    original: Any = FakeTensorMode.__enter__

    @wraps(original)
    def enter(mode: FakeTensorMode) -> Any:
        if is_user_file(sys._getframe(1).f_code.co_filename):
            _of_programs.add(mode)
            Modes.were_entered = True
        return original(mode)

    patches.set(FakeTensorMode, "__enter__", enter)


def are_made() -> bool:
    """Return whether what is made now has no memory, as the program wants it."""
    return Modes.were_entered and fake_mode() in _of_programs
