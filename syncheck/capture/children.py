"""Programs that the program starts: they are not checked, and the report says so."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from functools import wraps
from typing import Any

from syncheck.capture.patching import Patches

_LAUNCHERS = re.compile(r"(python|pypy)[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun")


def install_children(patches: Patches, incomplete: Callable[[str], None]) -> None:
    """Tell of Python programs that are started as processes of their own."""
    start = subprocess.Popen.__init__

    @wraps(start)
    def start_noted(self: Any, args: Any, *more: Any, **kwargs: Any) -> None:
        name = _program(args)
        if _LAUNCHERS.fullmatch(name):
            incomplete(f"a program that was started with `{name}` was not checked")
        start(self, args, *more, **kwargs)

    patches.set(subprocess.Popen, "__init__", start_noted)


def _program(args: Any) -> str:
    """Return the name of the program that a command starts; "" where that is not known."""
    try:
        words = shlex.split(args) if isinstance(args, str) else [os.fsdecode(word) for word in args]
    except (TypeError, ValueError):
        return ""
    return os.path.basename(words[0]) if words else ""
