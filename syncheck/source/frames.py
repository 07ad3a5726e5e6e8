"""Python's frames: of the caller, and of all threads.

Source:
    Python library reference, `sys._getframe` and `sys._current_frames`: the documented way, whatever their names.
"""

from sys import _current_frames as frames_of_threads
from sys import _getframe as frame_at

__all__ = ["frame_at", "frames_of_threads"]
