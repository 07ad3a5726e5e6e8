"""Progress of a run in the terminal title, because the terminal's lines belong to the program.

Source:
    xterm, "Control Sequences": OSC 2 sets the title; CSI 22 ; 2 t and CSI 23 ; 2 t save and restore it.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from syncheck.system.descriptors import Descriptor

_SAVE_TITLE, _RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_EVERY = 1.0
_FIRST_AFTER = 2.0
"""Seconds until the title changes, and between changes."""


def can_show(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal with a title; a closed standard stream is None."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "linux"}


def writer(stream: TextIO) -> Callable[[bytes], object]:
    """Return a function that writes to a terminal, but not to a file that reuses its closed descriptor."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # not backed by a file descriptor
        number = -1
    return Descriptor.of_stream(number).write


@contextmanager
def shown(
    text: Callable[[], str],
    write: Callable[[bytes], object],
    *,
    first_after: float = _FIRST_AFTER,
    every: float = _EVERY,
) -> Iterator[None]:
    """Show a changing text in the terminal title during a block, and restore the old title afterwards.

    Args:
        text: returns the text; called in another thread.
        write: writes to the terminal; raises OSError if the program has closed it.
        first_after: seconds until it is first shown, so that short runs change nothing.
        every: seconds between updates.
    """
    is_over = threading.Event()
    own_process = os.getpid()

    def write_sequence(sequence: str) -> None:
        with contextlib.suppress(OSError):
            write(sequence.encode())

    def show() -> None:
        if is_over.wait(first_after):
            return
        write_sequence(_SAVE_TITLE)
        while True:
            write_sequence(f"\x1b]2;{text()}\x07")
            if is_over.wait(every):
                write_sequence(_RESTORE_TITLE)
                return

    thread = threading.Thread(target=show, name="syncheck-title", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        if os.getpid() == own_process:  # a forked child has no such thread
            thread.join()
