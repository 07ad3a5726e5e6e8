"""Write what the GPUs did into the files that were asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from syncheck.config.options import Options
from syncheck.findings import Report
from syncheck.overlap import timeline, wording
from syncheck.overlap.analysis import Analysis, analyze
from syncheck.overlap.recorder import Recorder
from syncheck.overlap.report import OverlapReport
from syncheck.report import perfetto


def draw_run(recorder: Recorder | None, sites: Any, report: Report, options: Options) -> Report:
    """Write the timelines of a run; return its report, with a reason where one could not be written."""
    if recorder is None or options.perfetto is None or not report.summary.operators:
        return report
    analysis = analyze(recorder.graph())
    words = wording.report(analysis, recorder.names, sites, report.summary.backend)
    return draw(analysis, words, wording.Wording(analysis.graph, recorder.names, sites), report, options)


def draw(
    analysis: Analysis, words: OverlapReport, wording_: wording.Wording, report: Report, options: Options
) -> Report:
    """Write the timelines that the options ask for; return the report, with a note where one could not be written."""
    wanted: list[tuple[Path | None, Callable[[timeline.Timeline], str]]] = [(options.perfetto, perfetto.render)]
    made = timeline.make(analysis, words, wording_, report)
    for path, render in wanted:
        if path is None:
            continue
        try:
            path.write_text(render(made), encoding="utf-8")
        except OSError as error:
            report = report.noted(f"cannot write the timeline {path}: {error.strerror or error}")
    return report
