"""Runs `python -m MODULE ARGUMENT...` in processes forked from one that has imported torch: that saves seconds each.

Reads requests from standard input, one JSON object a line: {"module", "arguments", "folder", "environment", "path",
"limit"}; answers each with the exit status, once the process has ended. What it prints goes to the files `stdout` and
`stderr` of "output".
"""

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from site import execsitecustomize
from typing import Any


def run(
    module: str, *arguments: str, folder: Path, path: str = "", limit: int = 120
) -> subprocess.CompletedProcess[str]:
    """Run a module. Not for tests of the start itself: torch is imported before the program.

    Args:
        module: its name.
        arguments: those of its command line.
        folder: the working directory.
        path: PYTHONPATH.
        limit: seconds after which the process is ended by a signal.
    """
    one = _warm()
    try:
        return one.run(module, arguments, folder, path, limit)
    except BaseException:  # a test that is ended by its time limit: its answer would be the next one's
        _warm.cache_clear()
        atexit.unregister(one.close)
        one.abandon()
        raise


@cache
def _warm() -> "_Warm":
    one = _Warm()
    atexit.register(one.close)
    return one


class _Warm:
    """The warm process."""

    def __init__(self) -> None:
        root = str(Path(__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
        )
        self._output = tempfile.TemporaryDirectory()

    def run(
        self, module: str, arguments: tuple[str, ...], folder: Path, path: str, limit: int
    ) -> subprocess.CompletedProcess[str]:
        """Run a module, as `run` does."""
        environment = os.environ | ({"PYTHONPATH": path} if path else {})
        request = {"module": module, "arguments": arguments, "folder": str(folder), "path": path, "limit": limit}
        request |= {"output": self._output.name, "environment": environment}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        printed = [(Path(self._output.name) / name).read_text() for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess([module, *arguments], status, *printed)

    def abandon(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End it."""
        self._process.communicate()
        self._output.cleanup()


def _serve() -> None:
    import torch  # only in the warm process
    import torch._dynamo  # every dispatch mode imports it

    torch.set_num_threads(1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


def _become(request: dict[str, Any]) -> None:
    """Be the process that was asked for, and end as it does."""
    status: Any = 70
    try:
        output = Path(request["output"])
        for source, target in ((os.devnull, 0), (output / "stdout", 1), (output / "stderr", 2)):
            os.dup2(os.open(source, os.O_RDWR | os.O_CREAT | os.O_TRUNC * (target > 0)), target)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[0] = request["folder"]
        sys.path[1:1] = filter(None, request["path"].split(os.pathsep))
        sys.dont_write_bytecode = True  # a test may write two versions of a module within one second
        sys.argv = ["-m", *request["arguments"]]
        del sys.modules["tests"]
        execsitecustomize()  # it may be another one on this path
        signal.alarm(request["limit"])
        status = _run(request["module"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(module: str) -> int:
    """Run a module to the end of its process; return the exit status."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status: Any = 0
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001  as the interpreter does it
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads, as the interpreter does
    atexit._run_exitfuncs()
    if isinstance(status, str):
        sys.stderr.write(f"{status}\n")
        return 1
    return status or 0


if __name__ == "__main__":
    _serve()
