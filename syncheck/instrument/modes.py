"""Dispatch modes: how one is entered and left where the program has entered others, and leaves them when it likes."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.torch_internals import current_dispatch_modes, pop_dispatch_mode, push_dispatch_mode


def enter_mode(mode: TorchDispatchMode) -> None:
    """Enter a mode in the calling thread, under all others: each of those ends by taking away the topmost one."""
    above = [pop_dispatch_mode() for _ in current_dispatch_modes()]
    mode.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for other in reversed(above):
        push_dispatch_mode(other)


def leave_mode(mode: TorchDispatchMode) -> None:
    """Leave a mode in the calling thread, also from under others; do nothing where it is not entered there.

    A mode's own exit takes away the topmost one, whichever that is.

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
    """Take the modes of a class off the calling thread for a block, which leaves the others as they are."""
    entered = [pop_dispatch_mode() for _ in current_dispatch_modes()]  # the topmost first
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
