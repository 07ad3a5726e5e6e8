"""Compilation of source bytes to code; every failure is raised as a ScriptError."""

import io
import sys
import tokenize
import warnings
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import CodeType

from syncheck.errors import ScriptError

_ENCODING_HINT = "save it as UTF-8, or name its encoding in its first line: # -*- coding: latin-1 -*-"


def data_of(spec: ModuleSpec) -> bytes | None:
    """Return the source of a module; None if it has no readable source (bytecode, built-in, extension)."""
    read = getattr(spec.loader, "get_data", None)
    if read is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        data: bytes = read(spec.origin)
    except OSError as error:
        reason = error.strerror or error
        raise ScriptError(f"cannot read {spec.origin!r}: {reason}", "check its permissions") from error
    return data


def compile_source(source: bytes, path: str, shown_path: str, *, quiet: bool = False) -> CodeType:
    """Compile a module.

    Args:
        source: the bytes of the file, with byte order mark, encoding cookie and line endings unchanged.
        path: the file name stored in the code.
        shown_path: the file name for messages.
        quiet: whether to suppress warnings, because the same source is compiled again later.

    Raises:
        ScriptError: the source is not valid in its declared encoding, or not valid Python.
    """
    _check_encoding(source, shown_path)
    try:
        with warnings.catch_warnings(action="ignore") if quiet else nullcontext():
            # dont_inherit: the future statements of this file must not apply to the program
            return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ScriptError(_explain(error, shown_path), _version_hint()) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ScriptError(f"{shown_path}: {error}", _version_hint()) from error


def _check_encoding(source: bytes, shown_path: str) -> None:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        source.decode(encoding)
    except (SyntaxError, LookupError) as error:
        raise ScriptError(f"{shown_path}: {error}", _ENCODING_HINT) from error
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        message = f"{shown_path}:{line}: the byte 0x{source[error.start]:02x} is not {encoding}"
        raise ScriptError(message, _ENCODING_HINT) from error


def _explain(error: SyntaxError, shown_path: str) -> str:
    """Return the location, the message, the line and a caret under the column."""
    location = shown_path if error.lineno is None else f"{shown_path}:{error.lineno}"
    message = f"{location}: {error.msg}"
    if not error.text:
        return message
    line = error.text.rstrip()
    stripped = line.lstrip()
    column = max((error.offset or 1) - 1 - (len(line) - len(stripped)), 0)
    return f"{message}\n    {stripped}\n    {' ' * column}^"


def _version_hint() -> str:
    return f"Python {sys.version_info.major}.{sys.version_info.minor} cannot compile it; nothing was run"
