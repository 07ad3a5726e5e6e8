"""Turns a forked process into the one that a client requested."""

import atexit
import fcntl
import io
import linecache
import marshal
import os
import runpy
import signal
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from _pytest.assertion.rewrite import AssertionRewritingHook

_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "TORCH_LOGS")
"""Prefixes of the variables that are read when an interpreter starts or torch is imported ..."""
_LATER = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
"""... and the variables among them that this module handles itself."""
ROOT = str(Path(__file__).parents[2])
_FIRST_FREE = 400
"""The first of the temporary descriptor numbers used while the others are rearranged."""


def read_at_start(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that require a different interpreter.

    PYTHONHASHSEED=0 is ignored: the witness sets it so that processes hash alike, which forked processes do anyway.
    """
    found = {k: v for k, v in environment.items() if v and k.startswith(_AT_START) and k not in _LATER}
    return {k: v for k, v in found.items() if (k, v) != ("PYTHONHASHSEED", "0")}


def entries(environment: dict[str, str]) -> list[str]:
    """Return the entries of PYTHONPATH."""
    return [os.path.abspath(entry) for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]


class Template:
    """The state that all forked processes share.

    Args:
        real: path of the real interpreter.
    """

    def __init__(self, real: str) -> None:
        self._real = real
        self._environment = dict(os.environ)
        given = entries(self._environment)
        self._own = {*given, ROOT}
        self._path = [entry for entry in sys.path if os.path.abspath(entry) not in given]
        self._kept: list[Any] = []
        self._loaded: set[str] = set()
        self._tests: list[str] = []

    def note_modules(self) -> None:
        """Note the modules that all forked processes have: looking through them in each would copy their memory."""
        self._loaded = {name.partition(".")[0] for name in sys.modules} - {"tests", "__main__"}
        self._tests = [name for name in sys.modules if name.partition(".")[0] == "tests"]

    def become(self, request: bytes, descriptors: list[int]) -> NoReturn:
        """Become the process that a client requested, and exit with its status."""
        status = 70
        try:
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            words, environment, folder, numbers, ignored = marshal.loads(request)
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
            _location(descriptors, numbers)
            os.chdir(folder)
            os.environ.clear()
            os.environb.update(environment)
            status = self._run([os.fsdecode(word) for word in words])
        except BaseException:  # noqa: BLE001  the process must never return
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)

    def _run(self, words: list[str]) -> int:
        unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
        rest = list(words)
        while rest and rest[0] in {"-u", "-B"}:
            unbuffered |= rest.pop(0) == "-u"
        if not self._is_like_this(rest):
            os.execv(self._real, [self._real, *words])
        self._open_streams(unbuffered=unbuffered)
        sys.orig_argv[:] = [sys.executable, *words]
        sys.dont_write_bytecode = True  # a test may write two versions of a module within one second
        main = ModuleType("__main__")
        self._kept.append(sys.modules["__main__"])
        sys.modules["__main__"] = main
        for name in self._tests:
            self._kept.append(sys.modules.pop(name))
        return _end(lambda: _execute(rest, main))

    def _is_like_this(self, words: list[str]) -> bool:
        """Set `sys.path`. Return whether the process can run without an interpreter of its own."""
        if not words or (words[0].startswith("-") and (words[0] not in {"-m", "-c"} or len(words) < 2)):
            return False
        if read_at_start(dict(os.environ)) != read_at_start(self._environment):
            return False
        first = "" if words[0] == "-c" else os.getcwd()
        if not words[0].startswith("-"):
            if not os.path.isfile(words[0]):
                return False
            first = os.path.dirname(os.path.realpath(words[0]))
        path = entries(dict(os.environ))
        sys.path[:] = [first, *path, *self._path]
        names = self._loaded | {"sitecustomize", "usercustomize"}  # which run at startup
        return not any(_has(entry, names) for entry in {os.path.abspath(first), *path} - self._own)

    def _open_streams(self, *, unbuffered: bool) -> None:
        """Replace the standard streams: those of the server may have buffered data."""
        self._kept += [sys.stdin, sys.stdout, sys.stderr]
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            like = getattr(sys, name)
            stream = _stream(number, name, like, unbuffered=unbuffered) if _is_open(number) else None
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _stream(number: int, name: str, like: Any, *, unbuffered: bool) -> io.TextIOWrapper:
    """Return a standard stream with the encoding of another one."""
    raw = io.FileIO(number, "w" if number else "r", closefd=False)
    raw.name = f"<{name}>"
    buffer: Any = raw if unbuffered and number else (io.BufferedWriter if number else io.BufferedReader)(raw)
    stream = io.TextIOWrapper(
        buffer, like.encoding, like.errors, newline="\n", line_buffering=number == 2 or os.isatty(number),
        write_through=unbuffered and number > 0,
    )  # fmt: skip
    stream.mode = raw.mode[0]  # type: ignore[attr-defined]
    return stream


def _location(descriptors: list[int], numbers: list[int]) -> None:
    """Move descriptors to their numbers and close all others."""
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for one in descriptors]
    os.closerange(0, _FIRST_FREE)
    for one, number in zip(high, numbers, strict=True):
        if one != number:
            os.dup2(one, number)
            if one not in numbers:
                os.close(one)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _has(folder: str, names: set[str]) -> bool:
    """Return whether a folder contains modules with any of these names."""
    try:
        found = os.listdir(folder)
    except OSError:
        return False
    return any(name.partition(".")[0] in names and _may_be_module(name, folder) for name in found)


def _may_be_module(name: str, folder: str) -> bool:
    return name.endswith((".py", ".so")) or ("." not in name and os.path.isdir(os.path.join(folder, name)))


def _execute(words: list[str], main: ModuleType) -> None:
    """Run the program that a command line names, as `python` does."""
    if words[0] == "-m":
        AssertionRewritingHook._warn_already_imported = lambda *_: None  # type: ignore[method-assign]  # by the server
        sys.argv = ["-m", *words[2:]]
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
        return
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        code = compile(words[1], "<string>", "exec")
        if sys.version_info >= (3, 13):  # for tracebacks; see pythonrun.c
            registered = code if sys.version_info >= (3, 14) else "<string>"
            linecache._register_code(registered, words[1], "<string>")  # type: ignore[attr-defined]
    else:
        sys.argv = words
        path = os.path.abspath(words[0])
        loader = SourceFileLoader("__main__", path)
        main.__file__, main.__loader__, main.__cached__ = path, loader, None  # type: ignore[attr-defined]
        code = compile(loader.get_data(path), path, "exec")
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    exec(code, main.__dict__)


def _end(run: Any) -> int:
    """Run a callable, then shut down like an interpreter. Return the exit status."""
    status: Any = 0
    interrupted = False
    try:
        run()
    except SystemExit as end:
        status = end.code
    except BaseException as error:  # noqa: BLE001  as the interpreter does
        error.__traceback__ = _from_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        status, interrupted = 1, isinstance(error, KeyboardInterrupt)
    if status is not None and not isinstance(status, int):
        if sys.stderr is not None:
            sys.stderr.write(f"{status}\n")
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads, as the interpreter does
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return (status or 0) & 0xFF


def _from_program(traceback: Any) -> Any:
    """Return a traceback without the frames of this module."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback
