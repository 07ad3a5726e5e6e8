"""Run a Python program inside this process as `python` itself would.

`load` reads and compiles, so that a program that cannot run is refused before anything is started; `execute`
runs it to the end of its threads and `atexit` callbacks and returns the exit status `python` would have had.

What differs from `python` and cannot be helped:

- Our frames lie below the program's: `inspect.stack()` shows them, `warnings.warn` at the top of a script
  with a `stacklevel` beyond it names us and not `sys:1`, a built-in function that raises as an `atexit`
  callback is shown with our frame, and the recursion limit is reached a few calls earlier.
- `sys.orig_argv` is the command line of this process.
- A SIGTERM or SIGHUP is answered when the main thread next runs Python code, not in the middle of a long call into C. A
  program that sets it back to its default disposition dies of it at once, without `at_exit`.
- `os.exec*`, `os.abort`, SIGKILL and a crash in C end the process without `at_exit`.
- The end of the program is not the end of the process: daemon threads run on after it, and objects that are
  alive until then are finalized after `execute` has returned.
"""

from .execution import Outcome, execute
from .program import PreparedProgram, Program, load

__all__ = ["Outcome", "PreparedProgram", "Program", "execute", "load"]
