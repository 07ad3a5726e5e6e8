"""The forked `python` of the tests behaves like the real one."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm

SCRIPT = """
import sys
print(sys.argv, __name__, __file__, sys.path[0], sys.stdin.read())
import helper

def fail():
    raise ValueError(helper.NAME)

fail()
"""
READY = "print('ready', flush=True)\nimport time\ntime.sleep(100)\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("NAME = 'the helper'\nif __name__ == '__main__':\n    print(NAME)\n")
    return tmp_path


def result_of(python, folder, words, **more):
    """Return the exit status and the output of a command."""
    environment = os.environ | more
    done = subprocess.run(
        [python, *words], cwd=folder, env=environment, input="input", capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr.replace(sys.executable, "python").replace(python, "python")


@pytest.mark.parametrize(
    "words",
    [
        ("program.py", "a", "b c"),
        ("-m", "helper"),
        ("-m", "no_such_module"),
        ("no_such_file.py",),
        ("-c", "import sys; print(sys.argv, repr(sys.path[0]), sys.stdin.read()); sys.exit('no')", "-x"),
        ("-u", "-c", "import sys; sys.stdout.write('no newline'); import os; os._exit(3)"),
        ("-c", "import os, signal; print('lost'); os.kill(os.getpid(), signal.SIGTERM)"),
        ("-c", "raise KeyboardInterrupt"),
        ("-c", "import threading, time; threading.Timer(0.1, print, ['later']).start(); 1 / 0"),
        ("-c", "import atexit; atexit.register(print, 'at exit'); raise SystemExit(True)"),
        ("-c", "import os; print(sorted(os.listdir('/dev/fd'))[:3], os.getcwd(), os.environ['MORE'])"),
        ("-c", "import sys; print(sys.stdout, sys.stderr, sys.stdin)"),
        ("-X", "utf8=1", "-c", "import sys; print(sys.flags.utf8_mode)"),
    ],
)
def test_it_behaves_like_the_real_interpreter(folder, words):
    assert result_of(warm.PYTHON, folder, words, MORE="x") == result_of(sys.executable, folder, words, MORE="x")


def test_torch_is_preloaded_in_it_and_in_its_child_processes(folder):
    code = "import sys; print('torch' in sys.modules)"
    both = f"{code}\nimport subprocess; subprocess.run([sys.executable, '-c', {code!r}])"
    assert result_of(warm.PYTHON, folder, ("-u", "-c", both))[1] == "True\nTrue\n"


@pytest.mark.parametrize("more", [{"PYTHONHASHSEED": "1"}, {"LC_ALL": "C"}, {"PYTHONPATH": "hiding"}])
def test_a_different_environment_gets_a_real_interpreter(folder, more):
    (folder / "hiding").mkdir()
    (folder / "hiding" / "torch.py").touch()
    assert result_of(warm.PYTHON, folder, ("-c", "import sys; print('torch' in sys.modules)"), **more)[1] == "False\n"


def start(code):
    process = subprocess.Popen([warm.PYTHON, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL])
def test_a_signal_terminates_it(number):
    process, _ = start(READY)
    with process:
        process.send_signal(number)
        assert process.wait(timeout=60) == -number


def test_its_signal_handlers_are_called():
    # Python calls a handler between instructions: not before the end of a sleep that begins just after the signal.
    sleeps = READY.replace("time.sleep(100)", "for _ in range(1000): time.sleep(0.1)")
    process, _ = start("import signal; signal.signal(signal.SIGTERM, lambda *_: exit(7))\n" + sleeps)
    with process:
        process.terminate()
        assert process.wait(timeout=60) == 7


def test_a_signal_during_the_request_is_forwarded(tmp_path):
    address = str(tmp_path / "socket")
    client = Path(warm.__file__).with_name("client.py")
    more = {f"VARIABLE{number}": "x" * 100_000 for number in range(8)}  # more than a socket takes at once
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        process = subprocess.Popen([sys.executable, "-IS", client, address], env=os.environ | more)
        connection, _ = listener.accept()
    with process, connection:
        connection.settimeout(60)
        head, descriptors, _, _ = socket.recv_fds(connection, 4, 253)
        process.terminate()
        left = int.from_bytes(head, "little")
        while left and (part := connection.recv(left)):
            left -= len(part)
        assert connection.recv(1) == bytes([signal.SIGTERM])
        connection.send((7).to_bytes(4, "little"))
        assert process.wait(timeout=60) == 7
    for descriptor in descriptors:
        os.close(descriptor)


def test_killing_it_kills_its_child_processes():
    code = "import os, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
    process, line = start(code + "print(os.getpgid(0), flush=True)\n" + READY)
    with process:
        process.kill()
    deadline = time.monotonic() + 60
    while any(group_of(path) == line.strip() for path in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def group_of(process):
    try:
        state, _, group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if state == "Z" else group
