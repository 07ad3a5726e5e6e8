"""Parses stacks that `faulthandler` wrote while no Python code could run.

Source:
    CPython, Python/traceback.c, `_Py_DumpTracebackThreads`: the newest thread first, so the main thread is last; the
    innermost frame of each thread first.
"""

import re
from pathlib import Path

from syncheck.findings import Frame, Location
from syncheck.source.lines import excerpt, is_user_file, shown_path
from syncheck.source.text import source_line

_FRAME = re.compile(r'  File "(?P<path>.+)", line (?P<line>\d+) in (?P<function>.+)')


def main_thread(path: Path) -> Location | None:
    """Return the main thread's position in the latest stack dump; None if there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    starts = [number for number, line in enumerate(lines) if "most recent call first" in line]
    if not starts:
        return None
    found = [match for line in lines[starts[-1] :] if (match := _FRAME.match(line))]
    frames = [_frame(match["path"], int(match["line"]), match["function"]) for match in found]
    if not frames:
        return None
    chosen = next((index for index, frame in enumerate(frames) if frame.is_user), 0)
    return Location(frames[chosen], "", excerpt(found[chosen]["path"], frames[chosen]), tuple(frames))


def _frame(path: str, line: int, function: str) -> Frame:
    source = source_line(path, line)
    first = len(source) - len(source.lstrip()) + 1
    is_user = is_user_file(path)
    return Frame(shown_path(path), line, first, line, len(source) + 1, function, source, is_user)
