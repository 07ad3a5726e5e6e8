"""Builds the native recorder at first use with torch's `cpp_extension`, and caches it."""

import hashlib
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import find_spec, module_from_spec
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from syncheck.errors import BackendError
from syncheck.instrument.torch_version import torch_version

_NAME = "syncheck_recorder"
_FOLDER = Path(__file__).parent / "native"
_SOURCES = sorted(_FOLDER.glob("*.cpp"))
_FILES = sorted(_FOLDER.iterdir())
_BUILDER = "torch.utils.cpp_extension"  # slow to import
_OLDEST = (2, 10)
"""In older versions, a storage's Python object lives as long as a weak reference in C++ (PyTorch PR 167564)."""
_FALLBACK = "the Python recorder is used"


def extension(choice: str, note: Callable[[str], None]) -> Any:
    """Return the extension, built if necessary; None if the Python recorder is to be used.

    Args:
        choice: "auto", "native" or "python".
        note: shows the user why the Python recorder is used.

    Raises:
        BackendError: "native" was requested but is unavailable.
    """
    if choice == "python" or (choice == "auto" and not torch.cuda.is_available()):
        return None
    found, reason = _find(note)
    if reason and choice == "native":
        raise BackendError(f"the native recorder is unavailable: {reason}", "omit --recorder native")
    return found


def state() -> str:
    """Describe, for users, whether the extension exists or can be built."""
    path = _path(_NAME, _FILES)
    if path.exists():
        return f"built: {path}"
    try:
        with _ninja_on_path():
            _check_tools()
    except RuntimeError as error:
        return f"missing: {error}; {_FALLBACK}"
    return "not built yet; the first run on a GPU builds it"


_known: list[tuple[Any, str]] = []
"""(the extension, "") or (None, the reason), once it has been looked up in this process."""


def _find(note: Callable[[str], None]) -> tuple[Any, str]:
    if not _known:
        try:
            _known.append((_load(note), ""))
        except (OSError, RuntimeError, ImportError) as error:
            reason = str(error).strip().partition("\n")[0]
            note(f"the native recorder is unavailable: {reason}; {_FALLBACK}")
            _known.append((None, reason))
    return _known[0]


def _load(note: Callable[[str], None]) -> Any:
    return built(
        _NAME,
        _SOURCES,
        _FILES,
        lambda: note("building the native recorder, once for this version of torch: this takes a minute"),
    )


def built(name: str, sources: list[Path], files: list[Path], on_build: Callable[[], None]) -> Any:
    """Return an extension, built if necessary.

    Args:
        name: the extension's name.
        sources: its sources.
        files: all files that the build depends on.
        on_build: called before it is built.

    Raises:
        RuntimeError: the build failed, or tools are missing.
        OSError: the result could not be written.
        ImportError: the result could not be loaded.
    """
    path = _path(name, files)
    if not path.exists():
        with _ninja_on_path():
            _check_tools()
            on_build()
            _build(name, sources, path)
    return _import(name, path)


def _path(name: str, files: list[Path]) -> Path:
    return cache_folder() / f"{name}-{_key(tuple(files))}.so"


def cache_folder() -> Path:
    """Return the folder that caches the extension."""
    base = os.environ.get("SYNCHECK_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "syncheck"


@cache
def _key(files: tuple[Path, ...]) -> str:
    """Return a hash of everything that a build depends on: torch, Python, platform and files."""
    texts = (file.read_text(encoding="utf-8") for file in files)
    parts = (torch.__version__, sys.version, sysconfig.get_platform(), *texts)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@contextmanager
def _ninja_on_path() -> Iterator[None]:
    """Extend the PATH by the folder of the package `ninja`, if it is installed, for the duration of a block."""
    if find_spec("ninja") is None:
        yield
        return
    before = os.environ.get("PATH")
    os.environ["PATH"] = os.pathsep.join((before or os.defpath, import_module("ninja").BIN_DIR))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PATH"]
        else:
            os.environ["PATH"] = before


def _check_tools() -> None:
    if sys.platform != "linux":
        raise RuntimeError(f"it cannot be built on {sys.platform}")
    if torch_version() < _OLDEST:
        raise RuntimeError(f"it needs torch {_OLDEST[0]}.{_OLDEST[1]} or newer")
    compiler = import_module(_BUILDER).get_cxx_compiler()
    if shutil.which(compiler) is None:
        raise RuntimeError(f"the compiler {compiler} was not found")
    if shutil.which("ninja") is None:
        raise RuntimeError("ninja was not found: pip install ninja")


def _build(name: str, sources: list[Path], target: Path) -> None:
    """Build an extension in a temporary folder, then move it into place, because other processes may build it, too.

    Raises:
        RuntimeError: the build failed.
        OSError: the result could not be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    output = StringIO()
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        try:
            with redirect_stdout(output), redirect_stderr(output):
                paths = [str(source) for source in sources]
                import_module(_BUILDER).load(name, paths, extra_cflags=["-O2"], build_directory=folder)
        except RuntimeError as error:
            log = target.with_suffix(".log")
            log.write_text(f"{error}\n{output.getvalue()}", encoding="utf-8")
            raise RuntimeError(f"the compiler failed: see {log}") from error
        Path(folder, f"{name}.so").replace(target)


def _import(name: str, path: Path) -> Any:
    loader = ExtensionFileLoader(name, str(path))
    module = module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    loader.exec_module(module)
    return module
