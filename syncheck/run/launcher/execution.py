"""Run a loaded program as `__main__`."""

import builtins
import os
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from .exceptions import raised_by, report
from .exit_hook import ExitHook
from .program import PreparedProgram
from .shutdown import finish, flush_quietly, revive_threads
from .state import restored, search_path

_runpy: Any = runpy


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended.

    Attributes:
        status: the exit status that python itself would have had, 0 to 255.
        interrupted: whether it ended by a KeyboardInterrupt; `status` is then 128 + SIGINT. Python would die of the
            signal itself; a caller that needs this can send the signal again.
        is_child: whether this process is a child that the program forked and that ran to the end of the script. It must
            not report, only exit with `status`.
        exception: name of the type of the uncaught exception that ended it; "" if there was none.
    """

    status: int
    interrupted: bool
    is_child: bool
    exception: str = ""


def execute(
    prepared: PreparedProgram,
    at_exit: Callable[[int], int],
    at_exec: Callable[[Any, Any], None] | None = None,
    at_signal: Callable[[int], None] | None = None,
) -> Outcome:
    """Run a program to its end: its code, its threads and its `atexit` callbacks.

    Afterwards, `sys.argv`, `sys.path`, `__main__`, the working directory and the signal handlers are restored. All
    `atexit` callbacks of this process have run, including those registered before the program. `sys.stdout` and
    `sys.stderr` are as the program left them; a stream that cannot be flushed is redirected to the null device, or
    None.

    Args:
        prepared: the result of `load`.
        at_exit: called at most once, and only in this process, when the program is about to end the process by
            `os._exit` or SIGTERM, or to replace itself with another program by `os.execv`. It runs in the thread that
            does so, receives the exit status and returns the status to exit with (ignored for signals). It must flush
            its output. It is not called if this function returns.
        at_exec: called before `at_exit` if the program replaces itself, with the path and arguments of the new program.
        at_signal: called before `at_exit` if a signal ends the program, with its number.
    """
    pid = os.getpid()
    with restored(), search_path(prepared.entry), ExitHook(at_exit, at_exec, at_signal):
        sys.argv = ["-m" if prepared.program.is_module else prepared.program.target]
        sys.argv += prepared.program.arguments
        sys.modules["__main__"] = _new_main(prepared)
        if "__mp_main__" in sys.modules:  # classes of `__main__` that a spawned child sends back have this module
            sys.modules["__mp_main__"] = sys.modules["__main__"]
        status, interrupted, exception = _run_body(prepared)
        replaced = finish()
    revive_threads()
    if replaced is not None and not interrupted:
        status = replaced
    return Outcome(status, interrupted, os.getpid() != pid, exception)


def _run_body(prepared: PreparedProgram) -> tuple[int, bool, str]:
    """Run the code; return the exit status, whether the user interrupted it, and the exception that ended it.

    The objects in the frames of a SystemExit are freed when this returns, before the `atexit` callbacks run.
    """
    error = raised_by(lambda: _run(prepared))
    if prepared.code is not None:
        flush_quietly()  # [_PyRun_SimpleFile]; python does not do this for a module
    try:
        if error is None or isinstance(error, SystemExit):
            return (0, False, "") if error is None else (*report(error), "")
        return (*report(error), type(error).__name__)
    finally:
        del error  # its frames refer to this one


def _run(prepared: PreparedProgram) -> None:
    if prepared.code is not None:
        exec(prepared.code, vars(sys.modules["__main__"]))  # noqa: S102  the user's own program
        return
    name = prepared.program.target if prepared.program.is_module else "__main__"
    _runpy._run_module_as_main(name, prepared.program.is_module)  # noqa: SLF001  called by python itself


def _new_main(prepared: PreparedProgram) -> ModuleType:
    """Return the `__main__` module at the start of the program; runpy fills in the rest."""
    main = ModuleType("__main__")
    attributes = vars(main)
    if sys.version_info < (3, 14):
        attributes["__annotations__"] = {}
    attributes["__builtins__"] = builtins
    if prepared.code is not None and prepared.path is not None:
        loader = SourceFileLoader("__main__", prepared.path)
        attributes.update(__loader__=loader, __file__=prepared.path, __cached__=None)
    return main
