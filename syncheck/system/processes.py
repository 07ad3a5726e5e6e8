"""Forks and processes, on systems that have them and on those that do not."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_GRACE = 10.0
"""Seconds that a program has to end when it is asked to."""
_CONTROL_C_EXIT = -1073741510
"""The status of a program that Ctrl-C ends on Windows, as Python gives it. Source: Modules/main.c, `exit_sigint`."""


def after_fork_in_child(act: Callable[[], object]) -> None:
    """Call something in each forked child from now on; there is none on Windows."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)


def is_alive(pid: int) -> bool:
    """Return whether a process on this machine runs; where that cannot be asked, as on Windows, it is taken to.

    Source:
        Python library reference, `os.kill`: on Windows any signal but two ends the process, 0 among them.
    """
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    try:  # one that has ended, and was not waited for, is still there
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[:1] != ["Z"]


def kill(pid: int) -> None:
    """End a process at once.

    Raises:
        OSError: there is none, or it is not ours.
    """
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def send_to_main_thread(number: int, main_thread: int) -> None:
    """Send a signal to the main thread of this process."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread, number)
    else:
        signal.raise_signal(number)  # Windows: Python calls handlers in the main thread, whichever thread raises it


def end_by_interrupt(exit_now: Callable[[int], object]) -> None:
    """End this process as python does after an unhandled KeyboardInterrupt: by the signal itself."""
    if sys.platform == "win32":
        exit_now(_CONTROL_C_EXIT)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def run_quietly(
    command: Sequence[str], folder: str | Path, environment: Mapping[str, str] | None = None, limit: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command that belongs to the user's program, without input; return what it printed.

    Args:
        command: the words.
        folder: the working directory.
        environment: its variables; None for those of this process.
        limit: seconds after which it is ended.

    Raises:
        subprocess.TimeoutExpired: it took longer.
        OSError: it cannot be started.
    """
    with subprocess.Popen(  # noqa: S603  a program of the user, as it was started
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except BaseException:
            _end(process)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process, which has some time to end those that it has started itself, such as ranks."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
