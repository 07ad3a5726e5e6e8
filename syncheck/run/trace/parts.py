"""The files of a trace: the first has the requested name, the others are numbered and beside it."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from syncheck.errors import TraceError
from syncheck.run.trace import codec

_SUFFIX = ".trace"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a trace.

    Attributes:
        path: the file.
        backend: description of the GPUs.
        recording: id of the recorded run; "" in a trace of an earlier version, which has one file.
        number: number of the file, from 1.
    """

    path: Path
    backend: str
    recording: str = ""
    number: int = 1


def path_of(first: Path, number: int) -> Path:
    """Return the name of a file of a trace: run.trace, run.0002.trace, run.0003.trace."""
    return first if number == 1 else first.with_name(f"{first.stem}.{number:04}{first.suffix}")


def read(path: Path) -> Part:
    """Read the header of a file.

    Raises:
        TraceError: it is not a trace, or has a newer format.
    """
    header = codec.read_header(path)
    trace = header.get("part", {})
    backend = str(header.get("backend", "unknown GPUs"))
    if not isinstance(trace, dict) or not isinstance(trace.get("number", 1), int):
        raise TraceError(f"{path}: the trace is damaged, seen at record 1 (it does not say which part it is)")
    return Part(path, backend, str(trace.get("recording", "")), trace.get("number", 1))


def named(paths: Sequence[Path]) -> list[Part]:
    """Return the files of the single trace that some paths refer to, in order.

    A folder refers to all traces in it, whatever their names; files called `.trace` must be traces. A single path to
    the first file of a trace also refers to its other files.

    Raises:
        TraceError: there is no trace, a file is not a trace, or the files are of several runs or ranks, or copies.
    """
    found = [
        part for path in paths for part in (_in_folder(path) if path.is_dir() else _read(path, is_only=len(paths) == 1))
    ]
    if len(paths) == 1 and not paths[0].is_dir():
        found += _later_files(found[0])
    if not found:
        raise TraceError(f"{paths[0]}: nothing was recorded in any of the files", codec.HINT)
    runs = {part.recording or str(part.path): part for part in found}
    if len(runs) > 1:
        names = " and ".join(sorted(part.path.name for part in runs.values())[:2])
        raise TraceError(f"{names} are traces of different runs, or of different ranks", "replay them separately")
    by_number: dict[int, Part] = {}
    for part in found:
        other = by_number.setdefault(part.number, part)
        if not other.path.samefile(part.path):
            names = " and ".join(sorted((other.path.name, part.path.name)))
            raise TraceError(f"{names} are the same part of a trace", "replay them separately")
    return [by_number[number] for number in sorted(by_number)]


def _read(path: Path, *, is_only: bool) -> list[Part]:
    """Return a file; unless it is the only one, skip a file without content, because the gap is reported later."""
    try:
        return [read(path)]
    except codec.NothingRecordedError:
        if is_only:
            raise
        return []


def remove_others(first: Path) -> None:
    """Remove the later files of an existing trace whose first file is about to be overwritten."""
    with contextlib.suppress(TraceError, OSError):
        for part in _later_files(read(first)):
            part.path.unlink()


def _later_files(first: Part) -> list[Part]:
    """Return the files beside the first file of a trace that belong to the same run."""
    if first.number != 1 or not first.recording:
        return []
    name = re.compile(re.escape(first.path.stem) + r"\.\d{4,}" + re.escape(first.path.suffix))
    beside = [path for path in first.path.parent.iterdir() if name.fullmatch(path.name)]
    return [part for part in _readable(beside) if part.recording == first.recording]


def _in_folder(folder: Path) -> list[Part]:
    files = [path for path in folder.iterdir() if path.is_file()]
    found = [part for path in files if path.suffix == _SUFFIX for part in _read(path, is_only=False)]
    found += _readable([path for path in files if path.suffix != _SUFFIX])
    if not found:
        raise TraceError(f"{folder}: there is no trace in this folder", codec.HINT)
    return found


def _readable(paths: Sequence[Path]) -> list[Part]:
    """Return the files that are traces with at least a header."""
    found = []
    for path in paths:
        with contextlib.suppress(TraceError):
            found.append(read(path))
    return found
