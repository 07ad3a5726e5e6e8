"""Fake tensors that a program creates in its own FakeTensorMode. torch itself creates and moves them.

Modes that torch enters internally, to compute shapes for DTensor or a graph, are not affected: their tensors must look
like the CPU tensors behind virtual GPU tensors.
"""

import sys
from functools import wraps
from typing import Any
from weakref import WeakSet

from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import fake_mode
from syncheck.source.lines import is_user_file

_program_modes: WeakSet[FakeTensorMode] = WeakSet()


class Modes:
    """The modes entered by the program. `were_entered`: whether there has been any since the check began."""

    were_entered = False


def install(patches: Patches) -> None:
    """Track the modes that the program itself enters, and let no mode use a GPU, neither its context nor its memory.

    Source:
        torch/_subclasses/fake_tensor.py, `init_gpu_context`: up to torch 2.11 for every build that sees a GPU.
        `avoid_device_init`: otherwise a mode also moves the values that it knows, those of `torch.tensor`.
    """
    original: Any = FakeTensorMode.__enter__

    @wraps(original)
    def enter(mode: FakeTensorMode) -> Any:
        if is_user_file(sys._getframe(1).f_code.co_filename):
            _program_modes.add(mode)
            Modes.were_entered = True
        return original(mode)

    patches.set(fake_tensor, "init_gpu_context", lambda device: None)
    patches.set(FakeTensorMode, "avoid_device_init", property(lambda mode: True))
    patches.set(Modes, "were_entered", False)
    patches.set(FakeTensorMode, "__enter__", enter)


def is_active() -> bool:
    """Return whether tensors created now have no memory because the program entered a fake mode."""
    return Modes.were_entered and fake_mode() in _program_modes
