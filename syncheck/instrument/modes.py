"""Enters and leaves dispatch modes below and between modes of the program."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.torch_internals import current_dispatch_modes, pop_dispatch_mode, push_dispatch_mode


def enter_mode(mode: TorchDispatchMode) -> None:
    """Enter a mode in the calling thread, below all others, because each of those exits by popping the topmost one."""
    above = [pop_dispatch_mode() for _ in current_dispatch_modes()]
    mode.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for other in reversed(above):
        push_dispatch_mode(other)


def leave_mode(mode: TorchDispatchMode) -> None:
    """Leave a mode in the calling thread, even below others; do nothing if it is not entered there.

    A mode's own exit pops the topmost mode, whichever that is.

    Source:
        torch/utils/_python_dispatch.py, `TorchDispatchMode.__exit__`.
    """
    if not any(entered is mode for entered in current_dispatch_modes()):
        return
    above = []
    while current_dispatch_modes()[-1] is not mode:
        above.append(pop_dispatch_mode())
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for other in reversed(above):
        push_dispatch_mode(other)


@contextmanager
def without_modes(kind: type[TorchDispatchMode]) -> Iterator[None]:
    """Remove the modes of a class from the calling thread for the duration of a block that balances its own modes."""
    entered = [pop_dispatch_mode() for _ in current_dispatch_modes()]  # topmost first
    for mode in reversed(entered):
        if not isinstance(mode, kind):
            push_dispatch_mode(mode)
    try:
        yield
    finally:
        for _ in current_dispatch_modes():
            pop_dispatch_mode()
        for mode in reversed(entered):
            push_dispatch_mode(mode)
