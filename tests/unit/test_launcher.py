"""Every script runs twice, under Python and under the launcher, with the same externally visible behavior."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from syncheck.errors import ScriptError
from syncheck.run.launcher import Program, load

REPOSITORY = Path(__file__).parents[2]

# Acts like a command line that uses the launcher. The record distinguishes a report from its absence.
DRIVER = """
import json, multiprocessing, os, signal, sys
from syncheck.run.launcher import Program, execute, load

record, kind, target, *arguments = sys.argv[1:]

def note(what):
    with open(record, "a") as file:
        file.write(json.dumps(what) + "\\n")

prepared = load(Program(target, tuple(arguments), kind == "module"))
outcome = execute(prepared, lambda status: note("at_exit") or status)
note([outcome.status, outcome.interrupted, outcome.is_child])
if outcome.interrupted:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
sys.exit(outcome.status)
"""


@dataclass(frozen=True)
class Ended:
    stdout: str
    stderr: str
    status: int


class Twice:
    """Runs a program under Python and under the launcher in `folder`."""

    def __init__(self, folder: Path, cache: Path):
        self.folder = folder
        self.record = folder / "record of the launcher"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self.environment |= {"PYTHONPATH": str(REPOSITORY), "PYTHONPYCACHEPREFIX": str(cache)}

    def write(self, name: str, source: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source if isinstance(source, bytes) else source.encode())

    def commands(self, target: str, *arguments: str, options: tuple[str, ...] = (), module: bool = False):
        python = [sys.executable, *options]
        kind = "module" if module else "script"
        return (
            [*python, *(["-m"] if module else []), target, *arguments],
            [*python, "-c", DRIVER, str(self.record), kind, target, *arguments],
        )

    def run(self, *args, **kwargs) -> Ended:
        """Return how the program ended; fail the test if the launcher's run ended differently."""
        processes = [self.start(command) for command in self.commands(*args, **kwargs)]
        plain, launched = [ended(process) for process in processes]
        assert launched == plain
        return plain

    def run_alone(self, command: list[str]) -> Ended:
        return ended(self.start(command))

    def start(self, command: list[str]) -> subprocess.Popen:
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=pipe, stderr=pipe)

    def notes(self) -> list:
        """Return what the launcher's processes reported: "at_exit", or the three values of an Outcome."""
        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text().splitlines()]


def ended(process: subprocess.Popen) -> Ended:
    try:
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    readable = [re.sub(r"\b0x[0-9a-f]+", "0x", stream.decode(errors="replace")) for stream in (out, err)]
    return Ended(*readable, process.returncode)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("bytecode")


@pytest.fixture
def twice(tmp_path, cache):
    return Twice(tmp_path, cache)


ORDINARY = {
    "it ends at its end": ("print('done')", 0),
    "it sees its arguments": ("import sys; print(sys.argv)", 0),
    "it is an empty file": ("", 0),
    "it is the main module": ("if __name__ == '__main__': print('main')", 0),
    "sys.exit gets nothing": ("import sys; sys.exit()", 0),
    "sys.exit gets 3": ("import sys; sys.exit(3)", 3),
    "sys.exit gets -1": ("import sys; sys.exit(-1)", 255),
    "sys.exit gets 256": ("import sys; sys.exit(256)", 0),
    "sys.exit gets True": ("import sys; sys.exit(True)", 1),
    "sys.exit gets a text": ("import sys; print('out'); sys.exit('the text')", 1),
    "sys.exit gets a tuple": ("import sys; sys.exit((1, 'two'))", 1),
    "sys.exit gets a text and stderr is None": ("import sys; sys.stderr = None; sys.exit('the text')", 1),
    "it raises a subclass of SystemExit": ("class Stop(SystemExit): pass\nraise Stop(4)", 4),
    "it raises in a function": ("def f():\n    raise ValueError('x')\nf()", 1),
    "it raises twice": ("try:\n    1 / 0\nexcept ArithmeticError as e:\n    raise KeyError('k') from e", 1),
    "it raises while it handles": ("try:\n    1 / 0\nexcept ArithmeticError:\n    undefined", 1),
    "it raises a group": ("raise ExceptionGroup('several', [ValueError(1), KeyError(2)])", 1),
    "it raises a BaseException": ("class Odd(BaseException): pass\nraise Odd('x')", 1),
    "it imports a module that does not compile": (
        "open('broken.py', 'w').write('def')\nimport sys; sys.path.insert(0, '.')\nimport broken",
        1,
    ),
    "it has an excepthook": ("import sys\nsys.excepthook = lambda *a: print('mine', a[:2])\n1 / 0", 1),
    "its excepthook sees only its own frames": (
        "import sys, traceback\n"
        "def hook(t, e, tb): print(traceback.extract_tb(tb), e.__traceback__ is tb, e.__context__)\n"
        "sys.excepthook = hook\n"
        "1 / 0",
        1,
    ),
    "its excepthook raises": ("import sys\ndef hook(*a): undefined\nsys.excepthook = hook\n1 / 0", 1),
    "its excepthook is nothing to call": ("import sys\nsys.excepthook = None\n1 / 0", 1),
    "its excepthook exits": ("import sys\ndef hook(*a): sys.exit(7)\nsys.excepthook = hook\n1 / 0", 7),
    "its excepthook is deleted": ("import sys\ndel sys.excepthook\n1 / 0", 1),
    "its last exception is kept": (
        "import sys, atexit\natexit.register(lambda: print(sys.last_type, sys.last_value))\n1 / 0",
        1,
    ),
    "main has the names that python gives it": (
        "for name, value in list(globals().items()):\n"
        "    print(name, getattr(value, 'path', value) if name == '__loader__' else value)",
        0,
    ),
    "main is itself": (
        "import __main__, sys\nprint(__main__.__dict__ is globals(), sys.modules['__main__'])",
        0,
    ),
    "sys.path is python's": ("import sys; print(sys.path)", 0),
    "it changes everything": (
        "import sys, os\nsys.argv = None; sys.path = []; os.chdir('/'); del sys.modules['__main__']",
        0,
    ),
    "its classes pickle": (
        "import pickle\nclass C: x = 1\nprint(pickle.loads(pickle.dumps(C())).x, pickle.dumps(C)[:40])",
        0,
    ),
    "os._exit pickles": (
        "import multiprocessing as m, os\n"
        "if __name__ == '__main__':\n"
        "    p = m.get_context('spawn').Process(target=os._exit, args=(5,))\n"
        "    p.start(); p.join(); print(p.exitcode)",
        0,
    ),
    "its source can be inspected": (
        "import inspect\ndef f():\n    return 1  # here\nprint(inspect.getsource(f))",
        0,
    ),
    "it warns": ("import warnings\ndef f(): warnings.warn('careful', stacklevel=2)\nf()", 0),
    "compiling it warns": ("x = 1\nif x is 1: pass", 0),
    "a deprecation is its own": ("import warnings\nwarnings.warn('old', DeprecationWarning)", 0),
    "annotations are evaluated": ("def f(x: print('evaluated')): pass\nprint(f.__annotations__)", 0),
    "annotations are not evaluated": (
        "from __future__ import annotations\ndef f(x: undefined): pass\nprint(f.__annotations__)",
        0,
    ),
    "its module annotations are its own": ("x: int = 1\nprint(globals().get('__annotations__'))", 0),
    "a thread outlives the body": (
        "import threading, time\n"
        "def late():\n    threading.main_thread().join(); print('late', threading.main_thread().is_alive())\n"
        "threading.Thread(target=late).start(); print('body')",
        0,
    ),
    "a thread raises": ("import threading\nthreading.Thread(target=lambda: 1 / 0, name='t').start()", 0),
    "a daemon thread is not waited for": (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
        0,
    ),
    "threads end before atexit, after an exception": (
        "import threading, atexit\natexit.register(print, 'atexit')\n"
        "threading.Thread(target=lambda: threading.main_thread().join() or print('thread')).start()\n1 / 0",
        1,
    ),
    "executors are left open": (
        "from concurrent.futures import ThreadPoolExecutor\nimport time\n"
        "pool = ThreadPoolExecutor(1)\n"
        "for i in range(3): pool.submit(lambda i=i: (time.sleep(0.01), print(i)))",
        0,
    ),
    "an executor gets work too late": (
        "from concurrent.futures import ThreadPoolExecutor\nimport atexit\n"
        "pool = ThreadPoolExecutor(1); pool.submit(print, 'in time')\n"
        "@atexit.register\ndef late(): pool.submit(print, 'late')",
        0,
    ),
    "an executor is imported too late": (
        "import atexit, threading\n@atexit.register\ndef late():\n    import concurrent.futures.thread",
        0,
    ),
    "the shutdown of threads raises": (
        "import threading, atexit\natexit.register(print, 'atexit')\n"
        "def fail(): raise ValueError('x')\nthreading._register_atexit(fail)",
        0,
    ),
    "the shutdown of threads raises and there is an unraisablehook": (
        "import threading, sys\nsys.unraisablehook = lambda u: print(u.exc_type, u.exc_value, u.object)\n"
        "def fail(): raise ValueError('x')\nthreading._register_atexit(fail)",
        0,
    ),
    "it is interrupted while it waits for a thread": (
        "import threading, os, signal, time\n"
        "def end(): threading.main_thread().join(); time.sleep(0.02); os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=end).start()",
        0,
    ),
    "atexit callbacks run in reverse": (
        "import atexit\natexit.register(print, 1)\natexit.register(print, 2)\nprint(0)",
        0,
    ),
    "an atexit callback registers another": (
        "import atexit\natexit.register(lambda: atexit.register(print, 'inner'))",
        0,
    ),
    "an atexit callback raises": (
        "import atexit\natexit.register(print, 'still')\n@atexit.register\ndef fail(): 1 / 0",
        0,
    ),
    "an atexit callback exits": ("import atexit, sys\natexit.register(lambda: sys.exit(5))", 0),
    "atexit runs after sys.exit": ("import atexit, sys\natexit.register(print, 'bye')\nsys.exit(2)", 2),
    "a temporary directory and a finalizer are cleaned up": (
        "import tempfile, weakref\nclass C: pass\nc = C()\nweakref.finalize(c, print, 'finalized')\n"
        "d = tempfile.TemporaryDirectory()",
        0,
    ),
    "logging is shut down": (
        "import logging, atexit\nlogging.basicConfig()\natexit.register(logging.error, 'at the end')",
        0,
    ),
    "the objects of a function die before atexit": (
        "import sys, atexit\nclass C:\n    def __del__(self): print('gone')\n"
        "def f():\n    c = C()\n    sys.exit(3)\natexit.register(print, 'atexit')\nf()",
        3,
    ),
    "its output is not flushed": ("import sys\nsys.stdout.write('no newline'); sys.stderr.write('none')", 0),
    "its stdout is closed": ("import sys\nsys.stdout.close()", 0),
    "its stdout is None": ("import sys\nsys.stdout = None\nprint('nothing')", 0),
    "its stdout is detached": ("import sys\nb = sys.stdout.detach()\nb.write(b'raw'); b.flush()", 120),
    "its stdout cannot be flushed": ("import os\nprint('lost')\nos.close(1)", 120),
    "its stdout cannot be flushed and it fails": ("import os\nprint('lost')\nos.close(1)\n1 / 0", 120),
    "its stderr cannot be flushed": ("import os, sys\nsys.stderr.write('lost')\nos.close(2)", 120),
    "its stdout is a wrapper that fails": (
        "import sys\nclass Bad:\n    closed = False\n    def flush(self): raise OSError('bad')\nsys.stdout = Bad()",
        120,
    ),
    "it handles SIGTERM and exits": (
        "import signal, os, sys\nprint(repr(signal.signal(signal.SIGTERM, lambda *a: sys.exit(9))))\n"
        "os.kill(os.getpid(), signal.SIGTERM)",
        9,
    ),
    "it ignores SIGTERM": (
        "import signal, os\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(os.getpid(), 15)",
        0,
    ),
    "it asks for the handler of SIGTERM": (
        "import signal\nprint(repr(signal.getsignal(15)), signal.getsignal(15) is signal.SIG_DFL)",
        0,
    ),
    "it catches KeyboardInterrupt": (
        "import os\ntry:\n    os.kill(os.getpid(), 2)\nexcept KeyboardInterrupt:\n    print('caught')",
        0,
    ),
    "its excepthook exits after an interrupt": (
        "import sys\ndef hook(*a): sys.exit(130)\nsys.excepthook = hook\nraise KeyboardInterrupt",
        130,
    ),
    "os._exit gets no status": (
        "import os\ntry:\n    os._exit('x')\nexcept TypeError as e:\n    print(e)",
        0,
    ),
    "it forks children that end by os._exit": (
        "import os\npid = os.fork()\nif pid == 0: os._exit(6)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
        0,
    ),
    "it forks a child that is terminated": (
        "import os, signal, _signal\nr, w = os.pipe()\npid = os.fork()\n"
        "if pid == 0:\n    os.write(w, repr((_signal.getsignal(15), os._exit)).encode()); signal.pause()\n"
        "print(os.read(r, 99)); os.kill(pid, 15); print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
        0,
    ),
    "it forks a child that kept a name for os._exit": (
        "import os\nfrom os import _exit\npid = os.fork()\nif pid == 0: _exit(6)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
        0,
    ),
    "it has an unfinished child of multiprocessing": (
        "import multiprocessing as m, time\n"
        "def job(): time.sleep(0.05); print('child', flush=True)\n"
        "m.get_context('fork').Process(target=job).start()",
        0,
    ),
    "it has a pool": (
        "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, 2]))",
        0,
    ),
    "asyncio runs": (
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    print('f')\nasyncio.run(f())",
        0,
    ),
}
SUBCLASS = "class Mine(KeyboardInterrupt): pass\nraise Mine"
INTERRUPTS_BY_SUBCLASS = sys.version_info >= (3, 14)
if not INTERRUPTS_BY_SUBCLASS:
    ORDINARY["it raises a subclass of KeyboardInterrupt"] = SUBCLASS, 1


@pytest.mark.parametrize(("source", "status"), ORDINARY.values(), ids=ORDINARY)
def test_a_script_ends_as_in_python_when(source, status, twice):
    twice.write("x.py", source)
    plain = twice.run("x.py", "a", "--b", "")
    assert plain.status == status  # the script does what its id says
    assert twice.notes() == [[status, False, False]]


INTERRUPTED = {
    "raised": "raise KeyboardInterrupt",
    "sent": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('not reached')",
    "raised before atexit and threads": (
        "import atexit, threading\natexit.register(print, 'atexit')\n"
        "threading.Thread(target=lambda: threading.main_thread().join() or print('thread')).start()\n"
        "raise KeyboardInterrupt('why')"
    ),
    "raised with an excepthook": "import sys\nsys.excepthook = print\nraise KeyboardInterrupt",
    "raised with a closed stdout": "import os\nprint('lost')\nos.close(1)\nraise KeyboardInterrupt",
}
if INTERRUPTS_BY_SUBCLASS:
    INTERRUPTED["a subclass is raised"] = SUBCLASS


@pytest.mark.parametrize("source", INTERRUPTED.values(), ids=INTERRUPTED)
def test_an_interrupt_ends_a_script_as_in_python_when(source, twice):
    twice.write("x.py", source)
    assert twice.run("x.py").status == -signal.SIGINT
    assert twice.notes() == [[130, True, False]]


ABRUPT = {
    "os._exit": ("import os\nprint('lost')\nos._exit(5)", 5),
    "os._exit with a keyword": ("import os\nos._exit(status=5)", 5),
    "os._exit under another name": ("from os import _exit\n_exit(5)", 5),
    "os._exit in a thread": ("import os, threading\nthreading.Thread(target=os._exit, args=(5,)).start()", 5),
    "os._exit at exit": ("import os, atexit\natexit.register(os._exit, 5)", 5),
    "os._exit in its excepthook": ("import os, sys\nsys.excepthook = lambda *a: os._exit(5)\n1 / 0", 5),
    "os.execv": ("import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'print(1); exit(5)'])", 5),
    "os.execlp after one that is not there": (
        "import os\ntry:\n    os.execlp('no-such-program', 'x')\n"
        "except FileNotFoundError as e:\n    print(e, flush=True)\n"
        "os.execlpe('sh', 'sh', '-c', 'echo $X; exit 5', {'X': '3', **os.environ})",
        5,
    ),
    "SIGTERM": ("import os, signal\nprint('lost')\nos.kill(os.getpid(), signal.SIGTERM)\nprint('no')", -15),
    "SIGTERM while it waits for a thread": (
        "import os, signal, threading, time\n"
        "def end(): threading.main_thread().join(); os.kill(os.getpid(), 15); time.sleep(9)\n"
        "threading.Thread(target=end).start()",
        -15,
    ),
    "SIGTERM while it sleeps": (
        "import os, signal, threading, time\nthreading.Timer(0.02, os.kill, (os.getpid(), 15)).start(); time.sleep(9)",
        -15,
    ),
}


@pytest.mark.parametrize(("source", "status"), ABRUPT.values(), ids=ABRUPT)
def test_at_exit_is_called_once_before_the_process_ends_by(source, status, twice):
    twice.write("x.py", source)
    assert twice.run("x.py").status == status
    assert twice.notes() == ["at_exit"]


def test_a_child_that_falls_off_the_end_reports_that_it_is_a_child(twice):
    source = "import os, atexit\natexit.register(print, 'atexit', flush=True)\npid = os.fork()\nif pid: os.wait()"
    twice.write("x.py", source)
    twice.run("x.py")
    assert twice.notes() == [[0, False, True], [0, False, False]]


def test_a_failing_child_reports_that_it_is_a_child(twice):
    twice.write("x.py", "import os\nif os.fork() == 0: 1 / 0\nprint(os.wait()[1])")
    twice.run("x.py")
    assert twice.notes() == [[1, False, True], [0, False, False]]


def test_a_failing_at_exit_callback_is_shown_and_the_status_is_kept(twice):
    twice.write("x.py", "import os; os._exit(5)")
    _, command = twice.commands("x.py")
    command[2] = DRIVER.replace('lambda status: note("at_exit") or status', "lambda status: 1 / 0")
    done = twice.run_alone(command)
    assert (done.status, done.stdout) == (5, "")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works_from_a_script_with(method, twice):
    source = f"""
import multiprocessing, os
print("as", __name__, flush=True)
class Run:
    def __init__(self, n): self.n = n
def square(job, queue):
    queue.put((Run(job.n ** 2), __name__))
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    queue = context.Queue()
    process = context.Process(target=square, args=(Run(7), queue))
    process.start()
    result, name = queue.get(timeout=10)
    print(result.n, name, type(result) is Run)
    process.join()
    print(process.exitcode)
"""
    twice.write("x.py", source)
    assert "49" in twice.run("x.py").stdout
    assert twice.notes() == [[0, False, False]]


def test_a_process_pool_left_open_ends(twice):
    source = (
        "from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing\n"
        "pool = ProcessPoolExecutor(1, multiprocessing.get_context('fork'))\n"
        "print(pool.submit(abs, -3).result())"
    )
    twice.write("x.py", source)
    assert twice.run("x.py").stdout == "3\n"
    assert twice.notes() == [[0, False, False]]


def test_an_unread_stdout_does_not_lose_the_outcome(twice):
    twice.write("x.py", "print('x' * 10)")
    statuses = []
    for command in twice.commands("x.py"):
        read, write = os.pipe()
        os.close(read)
        process = subprocess.Popen(
            command, cwd=twice.folder, env=twice.environment, stdout=write, stderr=subprocess.PIPE
        )
        os.close(write)
        statuses.append((process.communicate(timeout=20)[1], process.returncode))
    plain, launched = statuses
    assert plain == launched
    assert plain[1] == 120
    assert twice.notes() == [[120, False, False]]


PRINT_ALL = (
    "import sys\nprint(sys.argv, sys.path, __file__, __package__, __cached__, __builtins__)\n"
    "print(__spec__ and (__spec__.name, __spec__.origin, type(__spec__.loader)), __loader__.path)\n"
)


@pytest.mark.parametrize("target", ["./x.py", "sub/../x.py", ".//x.py", "link.py", "sub/link.py", "no suffix"])
def test_a_script_has_the_same_names_as_in_python_when_given_as(target, twice):
    twice.write("x.py", PRINT_ALL)
    twice.write("no suffix", PRINT_ALL)
    twice.write("sub/other.py", "")
    (twice.folder / "link.py").symlink_to("sub/far.py")
    twice.write("sub/far.py", PRINT_ALL + "import other; raise ValueError")
    (twice.folder / "sub" / "link.py").symlink_to(twice.folder / "x.py")
    twice.run(target, "a")


def test_a_script_given_by_absolute_path_can_import_its_neighbors(twice):
    twice.write("sub/neighbour.py", "print('imported')")
    twice.write("sub/x.py", PRINT_ALL + "import neighbour")
    assert "imported" in twice.run(str(twice.folder / "sub" / "x.py")).stdout


@pytest.mark.parametrize("options", [("-O",), ("-OO",), ("-P",), ("-W", "error"), ("-X", "dev"), ("-u",)])
def test_python_options_apply_to_the_script(options, twice):
    twice.write("x.py", PRINT_ALL + "def f(): 'doc'\nprint(__debug__, f.__doc__)\nassert __debug__")
    twice.run("x.py", options=options)


@pytest.mark.parametrize("start", ["script", "module", "link"])
def test_the_launchers_sys_path_entry_is_replaced_when_it_is_a(start, twice):
    twice.write("x.py", "import sys; print(sys.path)")
    twice.write("bin/driver.py", DRIVER)
    (twice.folder / "link").symlink_to("bin/driver.py")
    how = {"script": ["bin/driver.py"], "module": ["-m", "bin.driver"], "link": ["link"]}[start]
    plain, launched = twice.commands("x.py")
    launched[1:3] = how
    assert twice.run_alone(launched) == twice.run_alone(plain)


ENCODED = {
    "a byte order mark": b"\xef\xbb\xbfprint('\xc3\xa9')\nprint(__doc__)\n",
    "CRLF": b"x = '''a\r\nb'''\r\nprint(repr(x))\r\nif x:\r\n    raise ValueError\r\n",
    "a latin-1 cookie": b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\nraise ValueError('\xe9')\n",
    "a cookie in the second line": b"#!/bin/python\n# vim: set fileencoding=cp1252 :\nprint(ascii('\x80'))\n",
    "no newline at its end": b"def f():\n  return 1\nprint(f())\n  # end",
    "UTF-8": "wörter = 'äöü'\nprint(ascii(wörter))\nraise ValueError(wörter)\n".encode(),
}


@pytest.mark.parametrize("source", ENCODED.values(), ids=ENCODED)
def test_a_script_is_decoded_as_in_python_when_it_has(source, twice):
    twice.write("x.py", source)
    twice.run("x.py")


def test_a_directory_with_a_main_runs_as_in_python(twice):
    twice.write("app/__main__.py", PRINT_ALL + "import helper\nraise ValueError")
    twice.write("app/helper.py", "print('helper')")
    for target in ("app", "./app/", str(twice.folder / "app")):
        twice.run(target, "a")


def test_the_working_directory_runs_as_in_python(twice):
    twice.write("__main__.py", PRINT_ALL)
    for target in (".", "./", ""):
        twice.run(target, "a")


def test_a_zip_file_with_a_main_runs_as_in_python(twice):
    with zipfile.ZipFile(twice.folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", PRINT_ALL.replace("__loader__.path", "1") + "import helper\nraise ValueError")
        archive.writestr("helper.py", "print('helper')")
    twice.run("app.zip", "a")


MODULES = {
    "a module": ("mod", {"mod.py": PRINT_ALL + "raise ValueError"}),
    "a package": ("pkg", {"pkg/__init__.py": "print('init')", "pkg/__main__.py": PRINT_ALL}),
    "a module in a package": (
        "pkg.mod",
        {"pkg/__init__.py": "import sys; print(sys.argv)", "pkg/mod.py": PRINT_ALL},
    ),
    "a relative import": (
        "pkg.sub.mod",
        {
            "pkg/__init__.py": "",
            "pkg/sub/__init__.py": "",
            "pkg/other.py": "y = 5",
            "pkg/sub/mod.py": PRINT_ALL + "from ..other import y\nfrom . import mod\nprint(y)",
        },
    ),
    "a namespace package": ("space.mod", {"space/mod.py": PRINT_ALL}),
    "a nested namespace package": ("space.inner.mod", {"space/inner/mod.py": PRINT_ALL}),
    "a main in a namespace package": ("space", {"space/__main__.py": PRINT_ALL}),
    "a package that extends its path": (
        "pkg.far",
        {"pkg/__init__.py": "__path__.append('elsewhere')", "elsewhere/far.py": PRINT_ALL},
    ),
    "a package that extends its path in vain": ("pkg.far", {"pkg/__init__.py": "__path__ += []"}),
    "a package that fails": ("pkg.mod", {"pkg/__init__.py": "print('init'); 1 / 0", "pkg/mod.py": ""}),
    "a module imported by its package": (
        "pkg.mod",
        {"pkg/__init__.py": "from . import mod", "pkg/mod.py": PRINT_ALL},
    ),
    "sys.exit": ("mod", {"mod.py": "import sys; sys.exit('text')"}),
    "a module of the standard library": ("this", {}),
    "an extension module": ("_json", {}),
    "a built-in module": ("builtins", {}),
}


@pytest.mark.parametrize(("name", "files"), MODULES.values(), ids=MODULES)
def test_a_module_runs_as_in_python_when_there_is(name, files, twice):
    for path, source in files.items():
        twice.write(path, source)
    status = twice.run(name, "a", "b", module=True).status
    assert twice.notes() == [[status, False, False]]


def test_a_module_warns_once_when_it_is_compiled(twice):
    twice.write("mod.py", "x = 1\nif x is 1: pass")
    twice.write("app/__main__.py", "x = 1\nif x is 1: pass")
    twice.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    assert twice.run("mod", module=True).stderr.count("SyntaxWarning") == 1
    assert twice.run("app").stderr.count("SyntaxWarning") == 1


def test_a_module_is_not_searched_in_the_working_directory_with_option_p(twice):
    twice.write("json/tool.py", "print('mine')")
    twice.write("data.json", "[1]")
    assert "1" in twice.run("json.tool", "data.json", options=("-P",), module=True).stdout


def test_an_interrupted_module_ends_by_the_signal(twice):
    twice.write("mod.py", "raise KeyboardInterrupt")
    assert twice.run("mod", module=True).status == -signal.SIGINT
    assert twice.notes() == [[130, True, False]]


def test_multiprocessing_spawns_from_a_module(twice):
    source = """
import multiprocessing
def job(queue): queue.put(__name__)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=job, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
"""
    twice.write("pkg/__init__.py", "")
    twice.write("pkg/mod.py", source)
    assert twice.run("pkg.mod", module=True).stdout == "__mp_main__\n"


def test_loading_a_module_executes_no_line_of_its_packages(twice, monkeypatch):
    twice.write("some_package/__init__.py", "raise AssertionError('imported')")
    twice.write("some_package/mod.py", "raise AssertionError('run')")
    monkeypatch.chdir(twice.folder)
    path = sys.path.copy()
    prepared = load(Program("some_package.mod", (), is_module=True))
    assert prepared.path == str(twice.folder / "some_package" / "mod.py")
    assert "some_package" not in sys.modules
    assert sys.path == path


RESTORED = """
import atexit, os, signal, sys, threading, _signal
from concurrent.futures import ThreadPoolExecutor
from syncheck.run.launcher import Outcome, Program, execute, load

def state():
    return (
        sys.argv, sys.argv.copy(), id(sys.path), sys.path.copy(), sys.modules["__main__"], os._exit,
        os.getcwd(), sys.excepthook, _signal.getsignal(signal.SIGTERM), _signal.getsignal(signal.SIGINT),
        threading.main_thread().is_alive(), threading.main_thread().name,
    )

before = state()
prepared = load(Program("x.py", ("a",), False))
assert state() == before
for _ in range(2):
    assert execute(prepared, lambda status: status) == Outcome(3, False, False)
    assert state() == before
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(abs, -1).result() == 1
threading.Thread(target=lambda: print("thread of the launcher")).start()
ThreadPoolExecutor(1).submit(print, "executor of the launcher")
atexit.register(print, "atexit of the launcher")
"""


def test_everything_is_restored_so_that_the_next_program_runs_the_same(twice):
    source = """
import atexit, os, signal, sys, threading
from concurrent.futures import ThreadPoolExecutor
ThreadPoolExecutor(1).submit(abs, 1)
threading.Thread(target=threading.main_thread().join).start()
atexit.register(print, "atexit")
signal.signal(signal.SIGTERM, print); signal.signal(signal.SIGINT, print)
sys.path = ["elsewhere"]; sys.argv.append("more"); os._exit = print; os.chdir("/"); sys.excepthook = print
sys.exit(3)
"""
    twice.write("x.py", source)
    done = twice.run_alone([sys.executable, "-c", RESTORED])
    assert done.stderr == ""
    assert done.stdout.splitlines()[:2] == ["atexit", "atexit"]
    assert sorted(done.stdout.splitlines()[2:]) == [
        "atexit of the launcher",
        "executor of the launcher",
        "thread of the launcher",
    ]


IN_A_THREAD = """
import threading
from syncheck.run.launcher import Program, execute, load
def run(): print(execute(load(Program("x.py", (), False)), print))
threading.Thread(target=run).start()
"""


def test_a_thread_other_than_the_main_thread_can_run_a_program(twice):
    twice.write("x.py", "import atexit; atexit.register(print, 'atexit')")
    done = twice.run_alone([sys.executable, "-c", IN_A_THREAD])
    assert (done.stdout, done.stderr) == (
        "atexit\nOutcome(status=0, interrupted=False, is_child=False, exception='')\n",
        "",
    )


def rejection(target: str, *, module: bool = False) -> tuple[str, str]:
    with pytest.raises(ScriptError) as caught:
        load(Program(target, (), module))
    return str(caught.value), caught.value.hint


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_missing_script_is_rejected_with_the_nearest_name(here):
    (here / "train.py").touch()
    assert rejection("trian.py") == ("no such file: 'trian.py'", "did you mean 'train.py'?")
    assert rejection("train") == ("no such file: 'train'", "did you mean 'train.py'?")
    assert rejection("nothing_like_it.txt")[1].startswith("paths are relative to ")
    assert rejection("nowhere/train.py")[1].startswith("there is no directory 'nowhere' in ")


def test_a_container_without_a_main_is_rejected(here):
    (here / "folder").mkdir()
    with zipfile.ZipFile(here / "app.zip", "w") as archive:
        archive.writestr("helper.py", "")
    assert rejection("folder")[0] == "no __main__.py in the directory 'folder'"
    assert rejection("app.zip")[0] == "no __main__.py in the zip file 'app.zip'"
    assert "-m" in rejection("folder")[1]


def test_an_unreadable_script_is_rejected(here):
    (here / "loop.py").symlink_to("loop.py")
    assert rejection("loop.py")[0] == "cannot read 'loop.py': Too many levels of symbolic links"
    assert rejection("a\0b.py")[0].startswith("cannot read 'a\\x00b.py': ")


def test_a_notebook_is_rejected(here):
    (here / "n.ipynb").write_text('{"cells": [], "metadata": null}')
    message, hint = rejection("n.ipynb")
    assert message == "'n.ipynb' is a notebook, not a script"
    assert "%%syncheck" in hint
    assert hint.endswith("syncheck lint n.ipynb")


def test_bytecode_is_rejected(here):
    (here / "x.pyc").write_bytes(b"")
    (here / "hidden").write_bytes(MAGIC_NUMBER + b"\0" * 12)
    assert rejection("x.pyc") == ("'x.pyc' is bytecode", "name the .py file that it was compiled from")
    assert rejection("hidden")[0] == "'hidden' is bytecode"


def test_a_syntax_error_is_reported_with_its_line(here):
    (here / "x.py").write_text("import sys\nif True:\n    x = = 1\n")
    message, hint = rejection("x.py")
    assert message == "x.py:3: invalid syntax\n    x = = 1\n        ^"
    assert hint.endswith("nothing was run")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"x = (\n", "x.py:1: '(' was never closed\n    x = (\n        ^"),
        (
            b"if x:\npass\n",
            "x.py:2: expected an indented block after 'if' statement on line 1\n    pass\n    ^",
        ),
        (b"return 1\n", "x.py:1: 'return' outside function\n    return 1\n    ^"),
        (b"x = 1\n\n\ny = '\xe9'\n", "x.py:4: the byte 0xe9 is not utf-8"),
        (b"# coding: ascii\nx = 1\n\n# \xe9\n", "x.py:4: the byte 0xe9 is not ascii"),
        (b"# coding: klingon\n", "x.py: unknown encoding: klingon"),
        (
            b"# coding: rot13\n",
            "x.py: 'rot13' is not a text encoding; use codecs.decode() to handle arbitrary codecs",
        ),
    ],
)
def test_invalid_source_is_reported_with_its_place(source, message, here):
    (here / "x.py").write_bytes(source)
    assert rejection("x.py")[0] == message


def test_null_bytes_are_rejected(here):
    (here / "x.py").write_bytes(b"x = 1\0\n")
    assert "null bytes" in rejection("x.py")[0]


def test_an_encoding_error_explains_what_to_do(here):
    (here / "x.py").write_bytes(b"\n\n\n\xe9\n")
    assert rejection("x.py")[1].startswith("save it as UTF-8")


def test_a_missing_module_is_rejected(here):
    (here / "some_package").mkdir()
    (here / "some_package" / "__init__.py").touch()
    (here / "some_module.py").touch()
    assert rejection("no_such_module", module=True)[0] == "no module named 'no_such_module'"
    assert rejection("some_package.mod", module=True)[0] == "no module named 'some_package.mod'"
    assert rejection("some_module.mod", module=True)[0] == "no module named 'some_module.mod'"
    assert rejection(".mod", module=True)[0] == "no module named '.mod'"
    assert rejection("some_module.py", module=True)[1] == "a script is named by its path, without -m"


def test_a_package_without_a_main_is_rejected(here):
    (here / "some_package").mkdir()
    (here / "some_package" / "__init__.py").touch()
    assert rejection("some_package", module=True)[0] == "the package 'some_package' has no __main__ and cannot be run"


def test_a_module_or_main_that_does_not_compile_is_reported_with_its_line(here):
    (here / "some_module.py").write_text("x = = 1\n")
    (here / "app").mkdir()
    (here / "app" / "__main__.py").write_text("\nx = = 1\n")
    assert rejection("some_module", module=True)[0].startswith(f"{here}/some_module.py:1: invalid syntax\n")
    assert rejection("app")[0].startswith(f"{here}/app/__main__.py:2: invalid syntax\n")


BROKEN_TORCH = """
import sys
from syncheck.errors import BackendError
from syncheck.run.process import _import_torch
sys.path.insert(0, sys.argv[1])
try:
    _import_torch()
except BackendError as error:
    print(error, error.hint, sep="; ")
"""


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("raise OSError('libcudart.so: cannot open')", "torch.py", "OSError: libcudart.so: cannot open"),
        ("import torch\ntorch.nn", "numbers.py", "AttributeError: partially"),  # torch imports that name
    ],
)
def test_a_failing_torch_import_names_the_file_that_shadows_a_module(tmp_path, source, name, expected):
    (tmp_path / name).write_text(source)
    command = [sys.executable, "-c", BROKEN_TORCH, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.startswith(f"torch cannot be imported: {expected}")
    assert f"rename {tmp_path / name}" in done.stdout
