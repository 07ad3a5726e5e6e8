"""Writes the timeline of a run to the requested files."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from syncheck.config.options import Options
from syncheck.errors import BackendError
from syncheck.findings import Report
from syncheck.overlap import timeline, wording
from syncheck.overlap.analysis import analyze
from syncheck.overlap.recorder import Recorder
from syncheck.report import html, perfetto
from syncheck.system import files

_UNSAFE = re.compile(r"[^\w.-]+")
_MAX_NAME_LENGTH = 180
"""Maximum length of a file name, as file systems allow 255 bytes."""


def draw_run(recorder: Recorder | None, sites: Any, report: Report, options: Options) -> Report:
    """Write the timelines of a run, and return its report, with a note about each that could not be written."""
    if recorder is None or not options.is_drawn or not report.summary.operators:
        return report
    return draw(picture_of(recorder, sites, report), report, options)


def picture_of(recorder: Recorder, sites: Any, report: Report) -> timeline.Timeline:
    """Return the timeline of a run."""
    analysis = analyze(recorder.graph())
    overlap_report = wording.report(analysis, recorder.names, sites, report.summary.backend)
    return timeline.make(analysis, overlap_report, wording.Wording(analysis.graph, recorder.names, sites), report)


def draw(picture: timeline.Timeline, report: Report, options: Options) -> Report:
    """Write a timeline in the requested formats, and return the report, with a note about each that failed."""
    wanted: list[tuple[Path | None, Callable[[timeline.Timeline], str]]] = [
        (options.perfetto, perfetto.render),
        (options.html, html.render),
    ]
    for path, render in wanted:
        if path is None:
            continue
        try:
            files.write(path, render(picture).encode("utf-8", "backslashreplace"))
        except OSError as error:
            report = report.noted(f"cannot write the timeline to {path}: {error.strerror or error}")
        except BackendError as error:
            report = report.noted(f"cannot write the timeline to {path}: {error}; {error.hint}")
    return report


def write_page(recorder: Recorder, sites: Any, report: Report, folder: Path, title: str) -> Path:
    """Write a timeline with a title as a page into a folder, and return the page's path.

    Raises:
        OSError: the page cannot be written.
        BackendError: jinja2 is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (_UNSAFE.sub("_", title).strip("_")[-_MAX_NAME_LENGTH:] + ".html")
    page = html.render(picture_of(recorder, sites, report), title)
    files.write(path, page.encode("utf-8", "backslashreplace"))
    return path
