"""A `python` whose processes are forked from one that has imported torch and syncheck, which saves seconds per process.

`PYTHON` replaces `sys.executable` in a command, and `BIN` is the folder with the environment's commands. Arguments,
environment, working directory, descriptors, signals and exit status are the same. Processes that such a process starts
with its own `sys.executable` are forked, too. A command starts `client.py`, which has `server.py` fork another process
and stands in for it. Requests that need a different interpreter get a real one: those with Python options, with
variables that are read at startup, or with modules that would shadow loaded ones.

Do not use it in tests of startup itself: imports, startup time, terminals, resource limits, or signals to a process
group.
"""

import atexit
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

COMMANDS = {"syncheck": "syncheck", "pytest": "pytest", "torchrun": "torch.distributed.run"}
"""The other commands that run in such a `python`, and their modules."""
_HERE = Path(__file__).parent
_COLORING = frozenset({"FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"})
"""Variables that typer reads when it is imported, perhaps set by the test that happens to start the server."""


class _Server:
    """The process that the others are forked from.

    Attributes:
        python: the command that starts a process.
        folder: the folder of the commands that start a process.
    """

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="warm-")
        address = os.path.join(self.folder, "socket")
        self.python = os.path.join(self.folder, os.path.basename(sys.executable))
        words = [sys.executable, "-IS", str(_HERE / "client.py"), address]
        self._write(self.python, words)
        for name, module in COMMANDS.items():
            self._write(os.path.join(self.folder, name), [self.python, "-m", module])
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(64)
            command = [sys.executable, _HERE / "server.py", str(listener.fileno()), self.python]
            environment = {name: value for name, value in os.environ.items() if name not in _COLORING}
            environment["OMP_NUM_THREADS"] = "1"
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env=environment
            )

    def _write(self, path: str, words: list[str]) -> None:
        Path(path).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        os.chmod(path, 0o755)

    def close(self) -> None:
        """Stop the server and everything that was forked from it."""
        self._process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def _server() -> _Server:
    one = _Server()
    atexit.register(one.close)
    return one


def __getattr__(name: str) -> str:
    if name == "PYTHON":
        return _server().python
    if name == "BIN":
        return _server().folder
    raise AttributeError(name)


def run(
    module: str, *arguments: str, folder: Path, path: str = "", limit: int = 120
) -> subprocess.CompletedProcess[str]:
    """Run a module to completion and return its result.

    Args:
        module: the module's name.
        arguments: its command-line arguments.
        folder: the working directory.
        path: the value of PYTHONPATH.
        limit: timeout in seconds.
    """
    environment = os.environ | ({"PYTHONPATH": path} if path else {})
    return subprocess.run(
        [_server().python, "-m", module, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=limit, check=False,
    )  # fmt: skip
