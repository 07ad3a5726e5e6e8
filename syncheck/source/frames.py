"""Access to Python frames: the caller's, those of all threads, and the local variables of a frame.

Source:
    Python library reference, `sys._getframe` and `sys._current_frames`: documented functions, despite their names.
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
"""Reference count of a dictionary owned only by its frame: the frame's, a local variable's and an argument's."""


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return the local variables of a frame, without keeping values alive that the program has deleted.

    Source:
        PEP 667: before Python 3.13, a function's frame keeps the dictionary returned by `f_locals`, with all values of
        that moment. `locals()` returns the same dictionary: if the program holds it, it is not changed.
    """
    found = frame.f_locals
    if not (_KEEPS and frame.f_code.co_flags & CO_OPTIMIZED):
        return dict(found)
    copy = dict(found)
    if sys.getrefcount(found) <= _OWN:
        found.clear()
    return copy
