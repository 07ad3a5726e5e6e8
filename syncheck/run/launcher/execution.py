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
        interrupted: it ended by a KeyboardInterrupt, and `status` is 128 + SIGINT. Python would end by the
            signal itself; whoever wants that sends it again.
        is_child: this process is a child that the program forked and that ran to the end of the script. It
            must not report; all that is left to do is to exit with `status`.
    """

    status: int
    interrupted: bool
    is_child: bool


def execute(
    prepared: PreparedProgram, at_exit: Callable[[int], int], at_exec: Callable[[Any, Any], None] | None = None
) -> Outcome:
    """Run a program to its end: its code, its threads, its `atexit` callbacks.

    Afterwards `sys.argv`, `sys.path`, `__main__`, the working directory and the signal handlers are as they
    were. The `atexit` callbacks of this process have run, also those from before the program. `sys.stdout`
    and `sys.stderr` are what the program left; one that cannot be flushed leads nowhere, or is None.

    Args:
        prepared: from `load`.
        at_exit: called, at most once and only in this process, when the program is about to end it by
            `os._exit` or SIGTERM, in the thread that does so, with the exit status; it returns the status to
            end with (that of a signal is not changed). It must flush what it writes. Not called where this
            function returns. So it is when the program replaces itself by another one, by `os.execv`.
        at_exec: called before it in that case, with the path and the arguments of the other program.
    """
    pid = os.getpid()
    with restored(), search_path(prepared.entry), ExitHook(at_exit, at_exec):
        sys.argv = ["-m" if prepared.program.is_module else prepared.program.target]
        sys.argv += prepared.program.arguments
        sys.modules["__main__"] = _new_main(prepared)
        status, interrupted = _run_body(prepared)
        replaced = finish()
    revive_threads()
    if replaced is not None and not interrupted:
        status = replaced
    return Outcome(status, interrupted, os.getpid() != pid)


def _run_body(prepared: PreparedProgram) -> tuple[int, bool]:
    """Run the code; the exit status, and whether the user interrupted it.

    The objects in the frames of a SystemExit are gone when this returns, so before `atexit` runs.
    """
    error = raised_by(lambda: _run(prepared))
    if prepared.code is not None:
        flush_quietly()  # [_PyRun_SimpleFile]; for a module python does not
    try:
        return (0, False) if error is None else report(error)
    finally:
        del error  # its frames refer to this one


def _run(prepared: PreparedProgram) -> None:
    if prepared.code is not None:
        exec(prepared.code, vars(sys.modules["__main__"]))  # noqa: S102  the user's own program
        return
    name = prepared.program.target if prepared.program.is_module else "__main__"
    _runpy._run_module_as_main(name, prepared.program.is_module)  # noqa: SLF001  what python itself calls


def _new_main(prepared: PreparedProgram) -> ModuleType:
    """The `__main__` that python has when the program begins; runpy fills in the rest."""
    main = ModuleType("__main__")
    attributes = vars(main)
    if sys.version_info < (3, 14):
        attributes["__annotations__"] = {}
    attributes["__builtins__"] = builtins
    if prepared.code is not None and prepared.path is not None:
        loader = SourceFileLoader("__main__", prepared.path)
        attributes.update(__loader__=loader, __file__=prepared.path, __cached__=None)
    return main
