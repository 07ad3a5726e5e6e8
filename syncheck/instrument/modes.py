"""Enters and leaves dispatch modes below and between modes of the program, and makes them faster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import (
    current_dispatch_modes,
    find_dispatch_rule,
    pop_dispatch_mode,
    push_dispatch_mode,
)


def enter_mode(mode: TorchDispatchMode) -> None:
    """Enter a mode in the calling thread, below all others, because each of those exits by popping the topmost one."""
    resume = [_suspend_topmost() for _ in current_dispatch_modes()]
    mode.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    while resume:
        resume.pop()()


def leave_mode(mode: TorchDispatchMode) -> None:
    """Leave a mode in the calling thread, even below others; do nothing if it is not entered there.

    A mode's own exit pops the topmost mode, whichever that is.

    Source:
        torch/utils/_python_dispatch.py, `TorchDispatchMode.__exit__`.
    """
    if not any(entered is mode for entered in current_dispatch_modes()):
        return
    resume = []
    while current_dispatch_modes()[-1] is not mode:
        resume.append(_suspend_topmost())
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    while resume:
        resume.pop()()


def _suspend_topmost() -> Callable[[], Any]:
    """Remove the topmost mode of the calling thread; return a function that puts it back.

    A mode saves torch's flags for active modes when it is entered, and restores them at its exit. It therefore exits
    and enters again, so that it saves the flags without the modes below that have been left, and with those that have
    been entered. Otherwise the flags would be wrong for good after the check, and torch 2.8 compiles nothing while they
    are set. The methods are those of the base class, because a program's own ones may have other effects.

    Source:
        torch/utils/_python_dispatch.py, `TorchDispatchMode.__enter__` and `__exit__`; torch/_dynamo/convert_frame.py,
        `CatchErrorsWrapper.__call__`.
    """
    mode = current_dispatch_modes()[-1]
    if not getattr(mode, "old_dispatch_mode_flags", None) or hasattr(mode, "_mode_key"):
        # It has not saved flags, or is one of torch's own, which are always below the program's, whatever came first.
        pop_dispatch_mode()
        return partial(push_dispatch_mode, mode)
    TorchDispatchMode.__exit__(mode, None, None, None)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return partial(TorchDispatchMode.__enter__, mode)


@contextmanager
def pushed_mode(mode: TorchDispatchMode) -> Iterator[None]:
    """Enter a mode in the calling thread for the duration of a block, but leave torch's flags for active modes alone.

    All threads share the flags, which the mode of the main thread sets. A thread that outlives the check would restore
    them to their values during the check.
    """
    push_dispatch_mode(mode)
    try:
        yield
    finally:
        pop_dispatch_mode()


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


def skip_rules(kind: type[TorchDispatchMode], patches: Patches) -> None:
    """Spare the operators of a mode's class the search for rules that a program has registered for it: it has none.

    torch searches before each call of a mode, and C++ holds the function, so its code is replaced.

    Source:
        torch/csrc/utils/python_arg_parser.cpp, `maybe_get_registered_torch_dispatch_rule`; torch/library.py,
        `register_torch_dispatch`.
    """
    search: Any = find_dispatch_rule
    if search is None or search.__defaults__ is not None:  # another version of torch, or another check is running
        return
    code = search.__code__
    original = FunctionType(code, search.__globals__)

    def found(op: Any, torch_dispatch_class: Any, skipped: Any = kind, search: Any = original) -> Any:
        return None if torch_dispatch_class is skipped else search(op, torch_dispatch_class)

    def restore() -> None:
        search.__code__, search.__defaults__ = code, None

    search.__defaults__ = found.__defaults__
    search.__code__ = found.__code__
    patches.on_undo(restore)
