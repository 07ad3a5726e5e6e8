"""Stands in for a process that the server forks: `python -IS client.py SOCKET ARGUMENT...`.

It imports little because it is started for each command: `_signal` and `_socket` take 1 ms, and `signal` and `socket`,
which turn their constants into enumerations, 12 ms (2026-11-24).
"""

import _signal as signal
import _socket as socket
import fcntl
import marshal
import os
import select
import sys

_NO_HANDLER = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}  # an interpreter always ignores them


def main() -> None:
    """Request a process, forward signals to it, and exit the way it does.

    No Python code forwards the signals: it would not run if one arrived just before `recv` begins to wait.
    """
    signals = sorted(set(signal.valid_signals()) - _NO_HANDLER - _BY_PYTHON)
    ignored = [number for number in signals if signal.getsignal(number) == signal.SIG_IGN]
    forwarded = set(signals) - set(ignored)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)  # until they can be forwarded
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptors = _inherited()
    server.connect(sys.argv[1])
    words = [os.fsencode(word) for word in sys.argv[2:]]
    request = marshal.dumps((words, dict(os.environb), os.getcwdb(), descriptors, ignored))
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    server.sendmsg([len(request).to_bytes(4, "little")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    server.sendall(request)
    os.set_blocking(server.fileno(), False)
    signal.set_wakeup_fd(server.fileno())  # the interpreter writes the numbers of signals there
    for number in forwarded:
        signal.signal(number, lambda got, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    ready = select.poll()
    ready.register(server.fileno(), select.POLLIN)
    ready.poll()
    answer = server.recv(4)  # the server sends it in one piece
    if len(answer) < 4:
        os.write(2, b"the server of the tests' processes has exited\n")
        os._exit(70)
    signal.set_wakeup_fd(-1)
    _end(int.from_bytes(answer, "little", signed=True))


def _inherited() -> list[int]:
    """Return the descriptors that this process inherited. Python's own are not inheritable."""
    found = []
    for number in map(int, os.listdir("/dev/fd")):
        try:
            flags = fcntl.fcntl(number, fcntl.F_GETFD)
        except OSError:  # the descriptor of the listing itself
            continue
        if not flags & fcntl.FD_CLOEXEC:
            found.append(number)
    return found


def _end(status: int) -> None:
    if status < 0:
        import resource  # rarely needed

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-status])
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
