"""How far a run is, in the title of its terminal: the lines belong to the program.

Source:
    xterm, "Control Sequences": OSC 2 sets the title; CSI 22 ; 2 t and CSI 23 ; 2 t keep it and bring it back.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_KEEP, _BRING_BACK = "\x1b[22;2t", "\x1b[23;2t"
_EVERY = 1.0
_FIRST_AFTER = 2.0
"""Seconds until the title changes, and between changes."""


def can_show(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with a title."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "linux"}


@contextmanager
def shown(
    text: Callable[[], str], stream: TextIO, *, first_after: float = _FIRST_AFTER, every: float = _EVERY
) -> Iterator[None]:
    """Show a text that changes in the title of a terminal for the time of a block, and the old title after it.

    Args:
        text: returns it; it is called by another thread.
        stream: the terminal.
        first_after: seconds until it is shown, so that short runs change nothing.
        every: seconds between changes.
    """
    is_over = threading.Event()
    own_process = os.getpid()

    def show() -> None:
        if is_over.wait(first_after):
            return
        _write(stream, _KEEP)
        while True:
            _write(stream, f"\x1b]2;{text()}\x07")
            if is_over.wait(every):
                _write(stream, _BRING_BACK)
                return

    thread = threading.Thread(target=show, name="syncheck-title", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        if os.getpid() == own_process:  # a forked child has no such thread
            thread.join()


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the program has closed it
        stream.write(text)
        stream.flush()
