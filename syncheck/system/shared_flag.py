"""A flag that a process shares with its forked children."""

import mmap


class SharedFlag:
    """A flag that this process and its forked children, direct or not, can set and read."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)  # anonymous memory is shared with forked children

    def set(self) -> None:
        """Set the flag."""
        self._memory[0] = 1

    @property
    def is_set(self) -> bool:
        """Return whether any of the processes has set the flag."""
        return bool(self._memory[0])
