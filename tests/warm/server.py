"""Forks a process for each client: `python server.py LISTENER PYTHON`. Exits when its standard input is closed."""

import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# The imports of the commands, including lazy ones. No pytest plugins: pytest rewrites their assertions.
LIBRARIES = """
torch torch._dynamo torch.distributed.run torch.multiprocessing torch.utils.data multiprocessing.spawn
libcst.codemod libcst.matchers libcst.metadata rich.console rich.progress rich.table typer.main typer.rich_utils pytest
tomllib resource zoneinfo
""".split()
OPTIONAL = ["typer._adapters"]  # imports pydantic, in the versions of typer that need it
_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}  # an interpreter always ignores them
NOT_OURS = ("syncheck.pytest_plugin", "syncheck.notebook", "syncheck.fixtures")


def load() -> None:
    """Import the modules that programs need."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for name in OPTIONAL:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    import torch

    import syncheck

    for module in pkgutil.walk_packages(syncheck.__path__, "syncheck."):
        if not module.name.startswith(NOT_OURS) and not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:  # an optional dependency is not installed
                if error.name is None or error.name.startswith("syncheck"):
                    raise
    torch.set_num_threads(1)
    rehearse()
    for finalizer in weakref.finalize._registry:  # type: ignore[attr-defined]
        finalizer.atexit = False  # torch's take 40 ms and have no effect outside the process
    gc.collect()
    gc.freeze()


def rehearse() -> None:
    """Check a few calls on virtual GPUs, so that the forked processes find the caches filled.

    With a CUDA build, torch would take CUDA to be initialized in the forked processes: see torch/csrc/utils/
    device_lazy_init.cpp, `is_initialized`.
    """
    import torch

    if torch.backends.cuda.is_built():
        return

    from syncheck.instrument.findings import NewFindings
    from syncheck.instrument.sites import SiteTable
    from syncheck.sanitizer.session import Session
    from syncheck.sim.backend import Simulator

    found, sites = NewFindings(), SiteTable()
    session = Session(lambda rule: True, "virtual GPUs", found.add)
    simulator = Simulator(1, session, sites, session.note, found, lambda: None)
    with simulator.watching():
        x = torch.ones(4, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            x = x * 2
        torch.cuda.synchronize()
        simulator.finish()
    session.report(sites)


class Server:
    """Forks processes, forwards signals, and reports exit statuses."""

    def __init__(self, listener: socket.socket, become: Callable[[bytes, list[int]], None]) -> None:
        self._listener = listener
        self._become = become
        self._clients: dict[int, tuple[int, socket.socket]] = {}  # descriptor -> process, connection
        self._poll = select.poll()
        wake, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        self._woken = wake
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for descriptor in (0, listener.fileno(), wake):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self) -> None:
        """Serve until standard input is closed, then kill the remaining processes."""
        while True:
            ready = [descriptor for descriptor, _ in self._poll.poll()]
            if 0 in ready:
                break
            for descriptor in ready:
                if descriptor == self._woken:
                    os.read(self._woken, 4096)
                    self._reap()
                elif descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor in self._clients:
                    self._pass_on(*self._clients[descriptor])
        for process, _ in self._clients.values():
            _kill(process)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        head, descriptors, _, _ = socket.recv_fds(client, 4, 253)
        request = b""
        while head and len(request) < int.from_bytes(head, "little"):
            part = client.recv(1 << 20)
            if not part:  # the client was killed
                head = b""
            request += part
        if head:
            child = os.fork()
            if child == 0:
                self._become(request, descriptors)
            with suppress(PermissionError, ProcessLookupError):  # the child has already done so and moved on
                os.setpgid(child, child)
            self._clients[client.fileno()] = child, client
            self._poll.register(client, select.POLLIN)
        for descriptor in descriptors:
            os.close(descriptor)

    def _pass_on(self, process: int, client: socket.socket) -> None:
        try:
            signals = client.recv(64)
        except ConnectionResetError:
            signals = b""
        for number in signals:
            os.kill(process, number)
        if not signals:  # the client was killed
            self._poll.unregister(client)
            _kill(process)

    def _reap(self) -> None:
        while self._clients:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            client = next(one for pid, one in self._clients.values() if pid == process)
            del self._clients[client.fileno()]
            with client, suppress(KeyError, OSError):  # the client was killed
                self._poll.unregister(client)
                client.send(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))


def _kill(process: int) -> None:
    """Kill a process and its descendants, which share its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def main() -> None:
    """Run the server."""
    real, sys.executable = sys.executable, sys.argv[2]
    for number in signal.valid_signals() - _BY_PYTHON:  # which the process that started this one ignores
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    listener = socket.socket(fileno=int(sys.argv[1]))
    sys.path[0] = str(Path(__file__).parents[2])
    from tests.warm.process import Template

    del sys.path[0]
    template = Template(real)
    load()
    template.note_modules()
    Server(listener, template.become).serve()


if __name__ == "__main__":
    main()
