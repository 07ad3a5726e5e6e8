"""The `overlap` command: explains why the work of a program does not overlap, from a run or a trace."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from syncheck.commands.details import announce, of_program, of_run
from syncheck.commands.timeline import draw, picture_of
from syncheck.config.options import Options
from syncheck.errors import BackendError
from syncheck.filters.policy import Policy
from syncheck.findings import NO_STEPS, NOTHING_SEEN, Report
from syncheck.overlap.recorder import Recorder
from syncheck.overlap.report import OverlapReport
from syncheck.run import launcher
from syncheck.run.process import make_run, new_session
from syncheck.run.trace import replaying
from syncheck.run.trace.codec import StoredSites
from syncheck.system.permanent import permanent_imports

if TYPE_CHECKING:
    from syncheck.run.run import Run

Show = Callable[[OverlapReport, Report], None]
"""Shows an overlap report to the user, given the findings of the same run."""


def is_trace(path: Path) -> bool:
    """Return whether a file is a trace rather than a program."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return "syncheck-trace" in file.read(64)
    except EOFError:  # truncated compressed data, so not a program
        return True
    except (OSError, UnicodeDecodeError):
        return False


def run(program: launcher.Program, options: Options, show: Show) -> int:
    """Run a program, explain why its work does not overlap, and return the program's exit status.

    Raises:
        ScriptError: the program cannot be read or compiled.
        BackendError: torch or a backend for it is missing, or no operator was seen.
    """
    options = replace(options, times=True)
    details = of_run(options)
    prepared = launcher.load(program)
    announce(program, options)
    seen: list[Report] = []

    def at_end(run: "Run", report: Report) -> Report:
        assert run.recorder is not None, "times were requested"
        seen.append(report)
        if report.completed().summary.operators:
            _explain(run.recorder, run.sites, report, options, show)
        return report

    with permanent_imports():
        checked = make_run(options, lambda _: 0, Policy(options), of_program(details, prepared, at_end), details)
    status = checked.run(prepared)
    if not status and seen:
        _check_not_empty(seen[0].completed())
    return status


def _check_not_empty(report: Report) -> None:
    """Check that a run has launched GPU work.

    Raises:
        BackendError: it launched none, or ended before the requested steps.
    """
    if NO_STEPS in report.incomplete:
        raise BackendError(NO_STEPS, next(iter(report.notes), ""))
    if NOTHING_SEEN in report.incomplete:
        raise BackendError(NOTHING_SEEN, "the program must use a GPU, or a simulated one with --backend sim")


def replay(path: Path, options: Options, show: Show) -> None:
    """Explain why the work of a recorded run does not overlap.

    Raises:
        TraceError: the trace cannot be used.
        BackendError: the trace contains no operator.
    """
    trace = recorded([path], options)
    report = Policy(options).filter(trace.report)
    if trace.recorder is None or not report.completed().summary.operators:
        cut = [reason for reason in report.incomplete if reason != NOTHING_SEEN]
        raise BackendError(NOTHING_SEEN, cut[0] if cut else "record a program that uses a GPU")
    _explain(trace.recorder, trace.sites, report, options, show)


class Recorded(NamedTuple):
    """The contents of a trace.

    Attributes:
        recorder: the operations of the first sequence of consecutive files; None if all files are damaged.
        sites: the call sites.
        report: the findings in the same files, with the reasons from all files why it may be incomplete.
        others: the reports of the other files.
    """

    recorder: Recorder | None
    sites: StoredSites
    report: Report
    others: tuple[Report, ...]


def recorded(paths: Sequence[Path], options: Options) -> Recorded:
    """Replay a trace, and return its operations, call sites and findings.

    Raises:
        TraceError: the trace cannot be used.
    """
    recorders: list[Recorder] = []
    sites = StoredSites()

    def make_session(backend: str) -> Any:
        recorders.append(Recorder(new_session(options, backend)))
        return recorders[-1]

    recorder, shown, others = None, Report(), list[Report]()
    for segment in replaying.segments(paths, make_session, sites):
        if recorder is None and segment.names:
            recorder, shown = recorders[-1], segment.report
        else:
            others.append(segment.report)
    if others:
        reasons = (reason for report in (shown, *others) for reason in report.incomplete)
        shown = replace(shown, incomplete=tuple(dict.fromkeys(reasons)))
    return Recorded(recorder, sites, shown, tuple(others))


def _explain(recorder: Recorder, sites: Any, report: Report, options: Options, show: Show) -> None:
    picture = picture_of(recorder, sites, report)
    show(picture.report, draw(picture, report, options))
