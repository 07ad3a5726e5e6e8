"""Calls functions in the main thread from another thread, and checks what the main thread is doing."""

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
from syncheck.system.processes import send_to_main_thread

_Callback = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_add_pending_call: Any = ctypes.pythonapi.Py_AddPendingCall
Act = Callable[[FrameType], None]
_waiting: deque[Act] = deque()


def call_in_main_thread(act: Act) -> bool:
    """Schedule a call in the main thread between two of its bytecodes; return whether it was scheduled.

    Until then the main thread is unaffected: no signal interrupts its system calls, and nothing is traced.

    Args:
        act: called with the main thread's current frame.

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
    except KeyboardInterrupt:  # would be lost here: an exception cannot leave a pending call
        _thread.start_new_thread(_interrupt, ())
    return 0


def _interrupt() -> None:
    """Interrupt the main thread again after it has left the pending call."""
    time.sleep(_LEFT)
    send_to_main_thread(signal.SIGINT, threading.main_thread().ident or 0)  # interrupts system calls, too


_LEFT = 0.01
"""Seconds within which the main thread leaves the pending call."""


_run = _Callback(_call_next)  # kept alive: the interpreter holds no reference to it
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_SYNCHECK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_LAUNCHER = os.path.join(_SYNCHECK, "run", "launcher", "")
_PLAIN = tuple(
    os.path.join(_TORCH, *path.split("/"))
    for path in ("nn/modules/", "nn/functional.py", "utils/_contextlib.py", "utils/data/dataloader.py", "amp/")
)
"""Parts of torch that only call other functions, and never leave torch's state half changed."""
_HANDLERS = frozenset({"__torch_dispatch__", "__torch_function__", "__del__"})


def is_between_calls(frame: FrameType | None) -> bool:
    """Return whether a thread is outside of torch, syncheck and imports whose state a call could disturb.

    Args:
        frame: the innermost frame of the program.
    """
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        if path.startswith(_LAUNCHER):
            return True  # the frames below only run the program
        if code.co_name in _HANDLERS or path.startswith((_SYNCHECK, "<frozen importlib")):
            return False
        if path.startswith(_TORCH) and not path.startswith(_PLAIN):
            return False
        frame = frame.f_back
    return True
