"""Run a Python program inside this process as `python` itself would.

`load` reads and compiles the program, so that one that cannot run is rejected before anything starts. `execute` runs it
to the end of its threads and `atexit` callbacks, and returns the exit status that `python` would have had.

Unavoidable differences from `python`:

- Frames of syncheck lie below the program's: `inspect.stack()` shows them; `warnings.warn` at the top of a script with
  a `stacklevel` beyond it names syncheck instead of `sys:1`; a built-in function that raises as an `atexit` callback is
  shown with a frame of syncheck; and the recursion limit is reached a few calls earlier.
- `sys.orig_argv` is the command line of this process.
- SIGTERM and SIGHUP are handled when the main thread next runs Python code, not in the middle of a long call into C. A
  program that restores the default disposition is killed immediately, without `at_exit`.
- `os.exec*`, `os.abort`, SIGKILL and a crash in C end the process without `at_exit`.
- The end of the program is not the end of the process: daemon threads keep running after it, and objects that are still
  alive are finalized after `execute` has returned.
"""

from .execution import Outcome, execute
from .program import PreparedProgram, Program, load

__all__ = ["Outcome", "PreparedProgram", "Program", "execute", "load"]
