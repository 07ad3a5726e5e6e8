"""Lifetimes of the streams and timing events that a loop creates: SYN805 counts those that end."""

from collections.abc import Callable


class Life:
    """Calls a function when the last value that holds this object is gone."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended: Callable[[], None] | None = ended

    def keep(self) -> None:
        """Let the object stay alive, because unknown code has stored it."""
        self._ended = None

    def __del__(self) -> None:
        if self._ended is not None:
            self._ended()
