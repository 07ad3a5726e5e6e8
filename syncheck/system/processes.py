"""Portable functions for forks and processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_GRACE = 10.0
"""Seconds that a program has to end after it was asked to."""
_CONTROL_C_EXIT = -1073741510
"""Exit status of a Python program that Ctrl-C ends on Windows. Source: Modules/main.c, `exit_sigint`."""


def after_fork_in_child(act: Callable[[], object]) -> None:
    """Call a function in each forked child from now on; a no-op on Windows, which has no fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)


def is_alive(pid: int) -> bool:
    """Return whether a process on this machine is running; True if that cannot be determined, as on Windows.

    Source:
        Python library reference, `os.kill`: on Windows, any signal but two ends the process, including 0.
    """
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    try:  # a zombie still has an entry
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[:1] != ["Z"]


def kill(pid: int) -> None:
    """Kill a process.

    Raises:
        OSError: there is no such process, or it belongs to another user.
    """
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def send_to_main_thread(number: int, main_thread: int) -> None:
    """Send a signal to the main thread of this process."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread, number)
    else:
        signal.raise_signal(number)  # Windows: Python calls handlers in the main thread, whichever thread raises


def end_by_interrupt(exit_now: Callable[[int], object]) -> None:
    """End this process by SIGINT itself, as python does after an unhandled KeyboardInterrupt."""
    if sys.platform == "win32":
        exit_now(_CONTROL_C_EXIT)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def run_quietly(
    command: Sequence[str], folder: str | Path, environment: Mapping[str, str] | None = None, limit: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command of the user's program without input, and return its output.

    Args:
        command: the command and its arguments.
        folder: the working directory.
        environment: environment variables; None for those of this process.
        limit: timeout in seconds.

    Raises:
        subprocess.TimeoutExpired: the timeout has expired.
        OSError: the command cannot be started.
    """
    with subprocess.Popen(  # noqa: S603  a program of the user
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
            _terminate(process)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    """Terminate a process, and give it time to end the processes that it has started, such as ranks."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
