"""Terminal output of commands: destinations of reports, error texts, and progress."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from syncheck.config import unread
from syncheck.config.options import Options
from syncheck.config.settings import Layer
from syncheck.errors import BackendError, ConfigError
from syncheck.findings import Report, counted
from syncheck.system import files, job
from syncheck.system.descriptors import Descriptor

if TYPE_CHECKING:
    from rich.progress import Progress

    from syncheck.overlap.report import OverlapReport

_PROGRESS_TIMEOUT = 2.0
"""Seconds before a progress bar is shown."""


class OutputStreams:
    """The standard streams that this process was started with, even if the program replaces them.

    Args:
        is_for_data: write human-readable reports to standard output too, like machine-readable ones; else to stderr.
        is_stdout_taken: write all reports to standard error, because standard output holds something else.
    """

    def __init__(self, *, is_for_data: bool, is_stdout_taken: bool = False) -> None:
        self._stdout, self._stderr = (_descriptor_of(stream) for stream in (sys.stdout, sys.stderr))
        self._encodings = tuple(getattr(stream, "encoding", None) or "utf-8" for stream in (sys.stdout, sys.stderr))
        if is_stdout_taken:
            self._stdout, self._encodings = self._stderr, (self._encodings[1],) * 2
        self._is_for_data = is_for_data

    def write(self, text: str, *, is_data: bool) -> None:
        """Write a report; a closed pipe is not an error.

        Raises:
            OSError: it cannot be written.
        """
        with contextlib.suppress(BrokenPipeError):
            encoding = "utf-8" if is_data else self._encodings[0 if self._is_for_data else 1]
            self._pick(is_data=is_data).write(_encoded(text, encoding))

    def write_anywhere(self, text: str) -> None:
        """Write a report that could not be written to its destination to any stream that works."""
        streams: tuple[Callable[[], Descriptor], ...] = (
            lambda: self._stderr, lambda: Descriptor.of_stream(2), lambda: self._stdout,
        )  # fmt: skip
        for find in streams:
            with contextlib.suppress(OSError):
                find().write(_encoded(text))
                return

    def is_colored(self, wanted: str, *, is_data: bool) -> bool:
        """Return whether a report may use colors.

        Args:
            wanted: "always", "never", or "auto": on a terminal, unless the environment says otherwise.
            is_data: whether the report is machine-readable.

        Source:
            https://no-color.org; https://force-color.org.
        """
        if wanted != "auto":
            return wanted == "always"
        if os.environ.get("NO_COLOR"):
            return False
        is_terminal = self._pick(is_data=is_data).is_terminal and os.environ.get("TERM") != "dumb"
        return is_terminal or bool(os.environ.get("FORCE_COLOR"))

    def width(self, *, is_data: bool, default: int) -> int:
        """Return the line width in cells: the terminal's or COLUMNS; `default` without a terminal."""
        columns = os.environ.get("COLUMNS", "")
        stream = self._pick(is_data=is_data)
        if not stream.is_terminal:
            return default
        return int(columns) if columns.isdecimal() and int(columns) else stream.columns or default

    def has_links(self, *, is_data: bool) -> bool:
        """Return whether a report may contain links: terminals without support ignore them."""
        return self._pick(is_data=is_data).is_terminal and os.environ.get("TERM", "dumb") != "dumb"

    def _pick(self, *, is_data: bool) -> Descriptor:
        return self._stdout if is_data or self._is_for_data else self._stderr


def _descriptor_of(stream: TextIO | None) -> Descriptor:
    try:
        return Descriptor.of_stream(stream.fileno() if stream is not None else -1)
    except (OSError, ValueError):
        return Descriptor(-1)


_PLAIN_SIGNS = str.maketrans({"─": "-", "…": "~"})


def _encoded(text: str, encoding: str = "utf-8") -> bytes:
    """Encode a report; what the encoding lacks is replaced or escaped."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN_SIGNS).encode(encoding, "backslashreplace")


def check_outputs(options: Options) -> None:
    """Check that the files to write can be written, before anything is done that takes long.

    Raises:
        ConfigError: one of them cannot.
    """
    for name in ("output", "html", "perfetto", "trace", *["baseline"] * options.write_baseline):
        path = getattr(options, name)
        reason = files.reason_not_writable(path) if path is not None else ""
        if reason:
            raise ConfigError(f"invalid value for --{name}: cannot write {str(path)!r}: {reason}", _WRITABLE)


_WRITABLE = "name a file in a folder that exists and can be written to"


def deliver(report: Report, options: Options, streams: OutputStreams) -> int:
    """Write a report to its destination; return the exit status that it calls for.

    If it cannot be written there, it is printed instead, so that no finding is lost.
    """
    from syncheck.report.render import WIDTH, render, status_of

    report = report.completed()
    is_data = options.output_format not in {"text", "concise"}
    where = "standard output" if options.output is None else str(options.output)
    try:
        if options.output is not None:
            files.write(options.output, _encoded(render(report, options, color=False)))
        else:
            color = streams.is_colored(options.color, is_data=is_data)
            links = color and streams.has_links(is_data=is_data)
            width = streams.width(is_data=is_data, default=WIDTH)
            streams.write(render(report, options, color=color, width=width, links=links), is_data=is_data)
    except OSError as error:
        reason = error.strerror or str(error)
        streams.write_anywhere(error_text(f"cannot write the report to {where}: {reason}", "the report follows"))
        streams.write_anywhere(render(report, options, color=False))
        return 3
    return status_of(report, options)


def deliver_overlap(overlap_report: "OverlapReport", report: Report, options: Options, streams: OutputStreams) -> None:
    """Print why work does not overlap, and the number of findings.

    Raises:
        BackendError: the file cannot be written.
    """
    from syncheck.report import overlap_table

    def rendered(*, color: bool, width: int = overlap_table.WIDTH) -> str:
        text = overlap_table.render(overlap_report, color=color, width=width)
        if report.findings:
            text += f"note: {counted(len(report.findings), 'finding')}: `syncheck run` shows what is wrong\n"
        text += "".join(f"incomplete: {reason}\n" for reason in report.incomplete)
        return text + "".join(f"note: {note}\n" for note in report.notes)

    where = "standard output" if options.output is None else str(options.output)
    try:
        if options.output is None:
            color = streams.is_colored(options.color, is_data=False)
            width = streams.width(is_data=False, default=overlap_table.WIDTH)
            streams.write(rendered(color=color, width=width), is_data=False)
        else:
            files.write(options.output, _encoded(rendered(color=False)))
    except OSError as error:
        raise BackendError(f"cannot write the report to {where}: {error.strerror or error}") from error


def error_text(message: str, hint: str = "") -> str:
    """Return the human-readable text of an error and its hint."""
    return f"syncheck: error: {message}\n" + (f"  hint: {hint}\n" if hint else "")


def warning_text(message: str, hint: str) -> str:
    """Return the human-readable text of a warning and its hint."""
    return f"syncheck: warning: {message}\n  hint: {hint}\n"


def warn_of_unread_settings(folder: str = "", layer: Layer = ()) -> None:
    """Print a warning for each misspelled setting, once per job.

    Args:
        folder: the folder whose settings are used; "" for the working directory.
        layer: the settings from the command line.

    Raises:
        ConfigError: a settings file cannot be read.
    """
    is_repeated = job.rank() > 0 or not _STARTED_BY_US.isdisjoint(os.environ)
    if is_repeated or sys.stderr is None or dict(layer).get("quiet"):
        return
    for message, hint in (*unread.tables(folder, layer), *unread.variables()):
        sys.stderr.write(warning_text(message, hint))


_STARTED_BY_US = frozenset({"SYNCHECK_PARTS", "SYNCHECK_RERUN"})
"""Environment variables of ranks and reruns that a process started, which has printed the warnings."""


def progress() -> Callable[[int, int], None]:
    """Return a callback that shows a progress bar on a terminal once linting has taken two seconds."""
    began = time.monotonic()
    bar: Progress | None = None

    def show(done: int, of: int) -> None:
        nonlocal bar
        if bar is None:
            if sys.stderr is None or not sys.stderr.isatty() or time.monotonic() - began < _PROGRESS_TIMEOUT:
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
