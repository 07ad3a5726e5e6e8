"""Display of exceptions that end a program, and of those that are ignored, in the same way as python.

Source:
    CPython 3.11 to 3.13: `Python/pythonrun.c` and `Python/errors.c`; the functions are named in brackets.
"""

import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace, TracebackType
from typing import Any

from syncheck.system import signals

_INTERRUPTED = 128 + signal.SIGINT  # the status that a shell reports for [exit_sigint]


def raised_by(act: Callable[[], object]) -> BaseException | None:
    """Call a function and return the exception that it raises, without this package's frames in the traceback."""
    try:
        act()
    except BaseException as error:  # noqa: BLE001  any exception that ends the program is its result
        return error.with_traceback(_outside_launcher(error.__traceback__))
    return None


def report(error: BaseException) -> tuple[int, bool]:
    """Show the exception that ended the program [_PyErr_PrintEx].

    Returns:
        The resulting exit status, and whether it is an interrupt by the user.
    """
    if isinstance(error, SystemExit):
        return _status_of(error), False
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    exit_of_hook = _call_excepthook(error)
    if exit_of_hook is not None:
        return _status_of(exit_of_hook), False
    if sys.version_info >= (3, 14):  # [_Py_HandleSystemExitAndKeyboardInterrupt]
        interrupted = isinstance(error, KeyboardInterrupt)
    else:  # [run_eval_code_obj] not a subclass
        interrupted = type(error) is KeyboardInterrupt
    return (_INTERRUPTED if interrupted else 1), interrupted


def attempt(act: Callable[[], object], where: object, moment: str) -> bool:
    """Call a function and return whether it succeeded; its exception is shown and ignored.

    Args:
        act: the function.
        where: the object that python names as the origin of the exception, until 3.12.
        moment: the occasion that python names from 3.13 on: "on threading shutdown".
    """
    error = raised_by(act)
    if error is None:
        return True
    described: Any = SimpleNamespace(  # python's own type cannot be instantiated from Python
        exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__, err_msg=None, object=where
    )
    if sys.version_info >= (3, 13):
        described.err_msg, described.object = f"Exception ignored {moment}", None
    with suppress(Exception):
        if sys.unraisablehook is sys.__unraisablehook__:
            sys.stderr.write(_unraisable(described))
        else:
            sys.unraisablehook(described)
    return False


def _outside_launcher(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__:
        trace = trace.tb_next
    first = trace
    while trace is not None:
        while trace.tb_next is not None and trace.tb_next.tb_frame.f_globals.get("__name__") == signals.__name__:
            trace.tb_next = trace.tb_next.tb_next
        trace = trace.tb_next
    return first


def _status_of(error: SystemExit) -> int:
    """[_Py_HandleSystemExit]."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        fits = -sys.maxsize - 1 <= code <= sys.maxsize
        return code & 0xFF if fits else 0xFF
    with suppress(Exception):
        print(code, file=sys.__stderr__ if sys.stderr is None else sys.stderr)
    return 1


def _call_excepthook(error: BaseException) -> SystemExit | None:
    """Show an uncaught exception; return the SystemExit raised by the hook, if any."""
    if not hasattr(sys, "excepthook"):
        _write("sys.excepthook is missing\n")
        _display(error)
        return None
    second = raised_by(lambda: sys.excepthook(type(error), error, error.__traceback__))
    if second is None or isinstance(second, SystemExit):
        return second
    _write("Error in sys.excepthook:\n")
    _display(second)
    _write("\nOriginal exception was:\n")
    _display(error)
    return None


def _display(error: BaseException) -> None:
    sys.__excepthook__(type(error), error, error.__traceback__)


def _unraisable(described: Any) -> str:
    """[write_unraisable_exc_file]."""
    where = _repr(described.object)
    heading = f"{described.err_msg}:" if described.err_msg else f"Exception ignored in: {where}"
    frames = traceback.extract_tb(described.exc_traceback)
    if sys.version_info >= (3, 13):
        frames = traceback.StackSummary.from_list([tuple(frame) for frame in frames])  # without carets
    trace = "Traceback (most recent call last):\n" + "".join(frames.format()) if frames else ""
    kind = described.exc_type
    module = "" if kind.__module__ in {"builtins", "__main__"} else f"{kind.__module__}."
    return f"{heading}\n{trace}{module}{kind.__qualname__}: {described.exc_value}\n"


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  for example of a detached stream
        return "<object repr() failed>"


def _write(text: str) -> None:
    with suppress(Exception):
        sys.stderr.write(text)
