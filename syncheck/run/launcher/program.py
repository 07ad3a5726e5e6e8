"""Find, read and compile a program without running any of it."""

import difflib
import os
import pkgutil
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import MAGIC_NUMBER
from types import CodeType

from syncheck.errors import ScriptError

from .modules import find_module
from .source import compile_source, data_of
from .state import search_path, working_directory


@dataclass(frozen=True, slots=True)
class Program:
    """The program to run.

    Attributes:
        target: the path of a script, the path of a directory or zip file with a `__main__.py`, or a module name.
        arguments: the program's `sys.argv[1:]`.
        is_module: whether `target` is a module, as in `python -m`.
    """

    target: str
    arguments: tuple[str, ...]
    is_module: bool


@dataclass(frozen=True, slots=True)
class PreparedProgram:
    """A program that was found and compiles.

    Attributes:
        program: the requested program.
        path: absolute path of the script, directory or zip file, as `python` names it; for a module, its file, or None
            if only importing its packages can show it.
        entry: the entry that `python` would put first in `sys.path`; None if it adds none (`python -P`).
        code: code of a script; None for anything that `runpy` runs: a module, a directory, a zip file.
    """

    program: Program
    path: str | None
    entry: str | None
    code: CodeType | None


def load(program: Program) -> PreparedProgram:
    """Find, read and compile a program.

    A module is found without importing its parent packages, because their code is part of the program.

    Raises:
        ScriptError: the file or module does not exist, cannot be read or decoded, or does not compile; or it is a
            directory or package without `__main__.py`, a notebook, or bytecode.
    """
    if program.is_module:
        return _load_module(program)
    path = _absolute(program.target)
    try:
        importer = pkgutil.get_importer(path)
    except ValueError as error:
        raise _unreadable(program.target, error) from error
    if importer is None:
        return _load_script(program, path)
    spec = importer.find_spec("__main__")
    if spec is None:
        kind = "directory" if os.path.isdir(path) else "zip file"
        hint = "name the script to run, or a module after -m"
        raise ScriptError(f"no __main__.py in the {kind} {program.target!r}", hint)
    _check(spec)
    return PreparedProgram(program, path, path, None)


def _load_module(program: Program) -> PreparedProgram:
    entry = None if sys.flags.safe_path else working_directory()
    with search_path(entry):
        spec = find_module(program.target)
    if spec is None:
        return PreparedProgram(program, None, entry, None)
    _check(spec)
    return PreparedProgram(program, spec.origin, entry, None)


def _load_script(program: Program, path: str) -> PreparedProgram:
    source = _read(program.target, path)
    code = compile_source(source, path, program.target)
    # [_PyPathConfig_ComputeSysPath0] the folder of the file itself, not of a symbolic link to it
    entry = None if sys.flags.safe_path else os.path.dirname(os.path.realpath(path))
    return PreparedProgram(program, path, entry, code)


def _read(target: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            source = file.read()
    except FileNotFoundError as error:
        raise ScriptError(f"no such file: {target!r}", _hint_for_missing(target)) from error
    except OSError as error:
        raise _unreadable(target, error) from error
    if path.endswith(".ipynb"):
        raise ScriptError(
            f"{target!r} is a notebook, not a script",
            f"check a cell with %%syncheck in the notebook (see %load_ext syncheck), or: syncheck lint {target}",
        )
    if path.endswith(".pyc") or source.startswith(MAGIC_NUMBER):
        raise ScriptError(f"{target!r} is bytecode", "name the .py file that it was compiled from")
    return source


def _unreadable(target: str, error: Exception) -> ScriptError:
    reason = getattr(error, "strerror", None) or error
    return ScriptError(f"cannot read {target!r}: {reason}", "check its type and permissions")


def _hint_for_missing(target: str) -> str:
    folder, name = os.path.split(target)
    try:
        scripts = [entry for entry in os.listdir(folder or ".") if entry.endswith(".py")]
    except OSError:
        return f"there is no directory {folder!r} in {working_directory()!r}"
    near = difflib.get_close_matches(name, scripts, n=1)
    if near:
        return f"did you mean {os.path.join(folder, near[0])!r}?"
    return f"paths are relative to {working_directory()!r}; to run a module, give -m NAME"


def _absolute(path: str) -> str:
    """Put the working directory in front of a path, without normalizing it [_Py_abspath]."""
    if os.name == "nt":
        return os.path.abspath(path)
    folder = working_directory() or ""
    return folder if path in {"", "."} else os.path.join(folder, path)


def _check(spec: ModuleSpec) -> None:
    """Compile the code that `runpy` will read and compile again later; warnings are issued then."""
    source = data_of(spec)
    if source is not None and spec.origin is not None:
        compile_source(source, spec.origin, spec.origin, quiet=True)
