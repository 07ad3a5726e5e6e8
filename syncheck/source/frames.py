"""Python's frames: of the caller, and of all threads, and the variables of one.

Source:
    Python library reference, `sys._getframe` and `sys._current_frames`: the documented way, whatever their names.
"""

import sys
from inspect import CO_OPTIMIZED
from sys import _current_frames as frames_of_threads
from sys import _getframe as frame_at
from types import FrameType
from typing import Any

__all__ = ["frame_at", "frames_of_threads", "locals_of"]

_KEEPS = sys.version_info < (3, 13)
_OWN = 3
"""References to a frame's dictionary if it is only the frame's: that of the frame, a variable here, an argument."""


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return the local variables of a frame, and let the frame keep nothing that the program has deleted.

    Source:
        PEP 667: before Python 3.13, the frame of a function keeps the dictionary that `f_locals` has given, with all
        values of that moment. `locals()` gives the same one: if the program has it, it stays as it is.
    """
    found = frame.f_locals
    if not (_KEEPS and frame.f_code.co_flags & CO_OPTIMIZED):
        return dict(found)
    copy = dict(found)
    if sys.getrefcount(found) <= _OWN:
        found.clear()
    return copy
