"""A `python` whose processes are forked from one that has imported torch and syncheck: that saves seconds each.

`PYTHON` stands for `sys.executable` in a command, and `BIN` for the folder of the environment's commands. Arguments,
environment, working directory, descriptors, signals and exit status are the same. What such a process starts by its own
`sys.executable` is forked, too. `client.py` is the process that is started: it has `server.py` fork another one, and
stands for that one. What asks for another interpreter gets a real one: by options of Python, by variables that are read
when it starts, by modules that hide those that are loaded.

Not for tests of the start itself: what is imported, how long it takes, what a terminal, a limit on resources or a
process group that is signalled does.
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
"""The other commands that are run by such a `python`, and their modules."""
_HERE = Path(__file__).parent


class _Server:
    """The process that the others are forked from.

    Attributes:
        python: what starts one of them.
        folder: has commands that start one of them.
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
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env=environment
            )

    def _write(self, path: str, words: list[str]) -> None:
        Path(path).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        os.chmod(path, 0o755)

    def close(self) -> None:
        """End it, and with it all that was forked from it."""
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
    """Run a module to its end and return what it printed.

    Args:
        module: its name.
        arguments: those of its command line.
        folder: the working directory.
        path: PYTHONPATH.
        limit: seconds that it may take.
    """
    environment = os.environ | ({"PYTHONPATH": path} if path else {})
    return subprocess.run(
        [_server().python, "-m", module, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=limit, check=False,
    )  # fmt: skip
