"""Call something in the main thread from another one, and find out what the main thread is in the middle of."""

import _thread
import ctypes
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from syncheck.source.frames import frame_at

_Callback = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_add_pending_call: Any = ctypes.pythonapi.Py_AddPendingCall
Act = Callable[[FrameType], None]
_waiting: deque[Act] = deque()


def call_in_main_thread(act: Act) -> bool:
    """Have the main thread call something between two of its bytecodes; return whether it will.

    Until it gets there nothing is different for it: no signal interrupts its system calls, and nothing is traced.

    Args:
        act: gets the frame that the main thread is in.

    Source:
        Python/C API reference, `Py_AddPendingCall`: "func will be called [...] by the main thread asynchronously with
        respect to normally running Python code".
    """
    _waiting.append(act)
    if _add_pending_call(_run, None) == 0:
        return True
    _waiting.remove(act)  # too many calls are pending
    return False


def _call_next(_: Any) -> int:
    try:
        if _waiting:
            _waiting.popleft()(frame_at(1))
    except KeyboardInterrupt:  # which would be lost here: an error cannot leave a pending call
        _thread.start_new_thread(_interrupt, ())
    return 0


def _interrupt() -> None:
    """Interrupt the main thread once more, when it has left the pending call."""
    time.sleep(_LEFT)
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):  # not on Windows
        signal.pthread_kill(main, signal.SIGINT)  # which also ends a system call
    else:
        _thread.interrupt_main()


_LEFT = 0.01
"""Seconds after which it has."""


_run = _Callback(_call_next)  # kept: the interpreter has no reference to it
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_SYNCHECK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_LAUNCHER = os.path.join(_SYNCHECK, "run", "launcher", "")
_PLAIN = tuple(
    os.path.join(_TORCH, *path.split("/"))
    for path in ("nn/modules/", "nn/functional.py", "utils/_contextlib.py", "utils/data/dataloader.py", "amp/")
)
"""Parts of torch that only call others: nothing of torch's state is half changed there."""
_HANDLERS = frozenset({"__torch_dispatch__", "__torch_function__", "__del__"})


def is_between_calls(frame: FrameType | None) -> bool:
    """Return whether a thread is in no call of torch, of syncheck or of an import that its state may depend on.

    Args:
        frame: the innermost one of the program.
    """
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        if path.startswith(_LAUNCHER):
            return True  # what is below runs the program
        if code.co_name in _HANDLERS or path.startswith((_SYNCHECK, "<frozen importlib")):
            return False
        if path.startswith(_TORCH) and not path.startswith(_PLAIN):
            return False
        frame = frame.f_back
    return True
