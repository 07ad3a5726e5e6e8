"""What the user sees of a command: where reports go, how errors read, and progress."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from syncheck.config.options import Options
from syncheck.findings import Report

if TYPE_CHECKING:
    from rich.progress import Progress

_PROGRESS_TIMEOUT = 2.0
"""Seconds until a progress bar is shown."""


class OutputStreams:
    """Where reports go: copies of the descriptors that this process was started with.

    Args:
        data: descriptor for reports that programs read.
        people: descriptor for reports that people read.
    """

    def __init__(self, data: int, people: int) -> None:
        self._data = os.dup(data)
        self._people = os.dup(people)

    def write(self, text: str, *, is_data: bool) -> None:
        """Write a report; a reader that is gone is no error."""
        with (
            contextlib.suppress(BrokenPipeError),
            os.fdopen(os.dup(self._pick(is_data=is_data)), "w", encoding="utf-8") as file,
        ):
            file.write(text)

    def is_colored(self, wanted: str, *, is_data: bool) -> bool:
        """Return whether a report may use colours.

        Args:
            wanted: "always", "never", or "auto": on a terminal, unless the environment says otherwise.
            is_data: the report is one that programs read.

        Source:
            https://no-color.org; https://force-color.org.
        """
        if wanted != "auto":
            return wanted == "always"
        if os.environ.get("NO_COLOR"):
            return False
        is_terminal = os.isatty(self._pick(is_data=is_data)) and os.environ.get("TERM") != "dumb"
        return is_terminal or bool(os.environ.get("FORCE_COLOR"))

    def _pick(self, *, is_data: bool) -> int:
        return self._data if is_data else self._people


def deliver(report: Report, options: Options, streams: OutputStreams) -> int:
    """Print a report where the user wants it; return the exit status that it calls for.

    A report that cannot be written to its file is printed all the same, so that no finding is lost.
    """
    from syncheck.report.render import render, status_of

    report = report.completed()
    status = status_of(report, options)
    is_data = options.output_format not in {"text", "concise"}
    if options.output is not None:
        try:
            options.output.write_text(render(report, options, color=False), encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            streams.write(
                error_text(f"cannot write the report to {options.output}: {reason}", "it follows here"), is_data=False
            )
            streams.write(render(report, options, color=False), is_data=False)
            return 3
        return status
    streams.write(render(report, options, color=streams.is_colored(options.color, is_data=is_data)), is_data=is_data)
    return status


def error_text(message: str, hint: str = "") -> str:
    """Return an error, and what to do about it, for people."""
    return f"syncheck: error: {message}\n" + (f"  hint: {hint}\n" if hint else "")


def progress() -> Callable[[int, int], None]:
    """Return what shows a bar on a terminal once linting has taken two seconds."""
    began = time.monotonic()
    bar: Progress | None = None

    def show(done: int, of: int) -> None:
        nonlocal bar
        if bar is None:
            if not sys.stderr.isatty() or time.monotonic() - began < _PROGRESS_TIMEOUT:
                return
            from rich.console import Console
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
            bar.add_task("files")
            bar.start()
        bar.update(bar.task_ids[0], completed=done, total=of)
        if done >= of:
            bar.stop()

    return show
