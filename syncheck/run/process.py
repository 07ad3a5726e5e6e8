"""Checking of one process of a program, and delivery of the report by one process for all."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from traceback import extract_tb
from typing import TYPE_CHECKING

from syncheck.config.extensions import import_all
from syncheck.config.options import Options
from syncheck.errors import BackendError, RecordError
from syncheck.filters.policy import Policy
from syncheck.findings import NOTHING_SEEN, Report
from syncheck.ranks import merging, rendezvous, watchdog, writer
from syncheck.sanitizer.collector import OnFinding
from syncheck.sanitizer.session import Session
from syncheck.system.details import NO_DETAILS, Details
from syncheck.witness import record

if TYPE_CHECKING:
    from syncheck.run.run import Run


def new_session(options: Options, backend: str, on_finding: OnFinding = lambda _: None) -> Session:
    """Return a session that reports the selected rules.

    Raises:
        ConfigError: a rule name does not exist.
    """
    codes = options.selected()
    return Session(lambda rule: rule.code in codes, backend, on_finding)


def _import_torch() -> None:
    """Import torch.

    Raises:
        BackendError: torch is not installed or cannot be imported.
    """
    try:
        import_module("torch")
    except Exception as error:
        if not isinstance(error, ModuleNotFoundError) or error.name != "torch":
            raise _broken(error) from error
        raise BackendError(
            "torch is not installed in this environment",
            f"install it for {sys.executable}: pip install 'torch>=2.8'",
        ) from error


def _broken(error: Exception) -> BackendError:
    """Return the error for a failed import of torch, often caused by a program file that shadows a module."""
    folder = os.path.abspath(sys.path[0])
    files = [os.path.abspath(frame.filename) for frame in extract_tb(error.__traceback__)]
    found = next((file for file in files if os.path.isfile(file) and os.path.dirname(file) == folder), "")
    hint = f"rename {found}, which is imported in place of another module" if found else "try: python -c 'import torch'"
    return BackendError(f"torch cannot be imported: {type(error).__name__}: {error}", hint)


def make_run(
    options: Options,
    deliver: Callable[[Report], int],
    policy: Policy | None = None,
    at_end: "Callable[[Run, Report], Report]" = lambda _, report: report,
    details: Details = NO_DETAILS,
) -> "Run":
    """Return the run that checks this process, as a member of its job.

    Args:
        options: the settings.
        deliver: prints a report and returns the exit status that it calls for.
        policy: filters the findings.
        at_end: called with the run and its report before delivery; returns the report to deliver.
        details: prints which GPUs are used, and why.

    Raises:
        ConfigError: a rule name does not exist, or models cannot be loaded.
        BackendError: torch or a backend is missing.
    """
    policy = policy or Policy(options)
    with details.timed("import of torch"):
        _import_torch()
        from syncheck.run import backends  # noqa: PLC0415  the first use of torch

        run_class = _run_class(options)

    def ended(report: Report, status: int) -> int:
        return conclude(at_end(run, report), status, run.sites.lines(), policy, deliver)

    import_all(options.models, options.root or record.root(), "models")
    name, make_backend = backends.choose(options)
    if details.is_wanted:
        details.write_line(f"backend: {name}, {backends.reason(options)}")
    run = run_class(options, partial(new_session, options), policy, ended, name, make_backend)
    details.begin()
    member = rendezvous.active or rendezvous.begin(options.ranks_dir)

    def watch() -> None:
        watchdog.begin(
            options.hang_timeout,
            lambda frame: run.sites.location(run.sites.capture(frame)),
            run.end_now,
            Details(is_wanted=not options.quiet).write_line,
        )

    member.on_join = watch
    return run


def _run_class(options: Options) -> "type[Run]":
    """Return the class of the run; that of a budget is imported only if there is one."""
    if options.budget is None:
        from syncheck.run.run import Run  # noqa: PLC0415

        return Run
    from syncheck.run.sampled import SampledRun  # noqa: PLC0415

    return SampledRun


def run_ranks(options: Options, policy: Policy, deliver: Callable[[Report], int]) -> int:
    """Run the current command in several ranks, and deliver one report for all of them.

    Raises:
        BackendError: the requested GPUs cannot be used.
        RecordError: the folder for the records cannot be written.
    """
    from syncheck.run import backends  # noqa: PLC0415  it needs torch, as below
    from syncheck.run.start_ranks import start_ranks  # noqa: PLC0415

    if not backends.is_usable(options):
        backends.choose(options)  # raises the error once, not in each rank
    with rendezvous.folder_for_ranks(options.ranks_dir) as folder:
        command = ["-m", "syncheck", *sys.argv[1:]]
        status = start_ranks(options.nproc, command, {rendezvous.PARTS: str(folder)}, record.stdout_folder())
        try:
            report = shown(merging.merge([folder]), policy)
        except RecordError as error:
            reason = f"no rank wrote a record: {error}"
            report = Report(incomplete=(reason,))
        report_status = deliver(report)
        return status or report_status


def conclude(
    report: Report, status: int, lines: Iterable[tuple[str, int]], policy: Policy, deliver: Callable[[Report], int]
) -> int:
    """Deliver the report of a process: alone, or merged with the other ranks' reports by the last rank of the job.

    Args:
        report: the filtered report.
        status: the program's own exit status.
        lines: (path, line) of all its call sites.
        policy: filters the findings.
        deliver: prints a report and returns the exit status that it calls for.

    Returns:
        The exit status that the report calls for; 0 if another process delivers it.
    """
    member, lines = rendezvous.active, list(lines)
    if member is None or writer.current() is None:
        if member is not None and member.has_children and not report.summary.operators and not report.findings:
            return 0  # a launcher of ranks on several machines, which report themselves
        alone = (member.unmerged_reason,) if member is not None and member.unmerged_reason else ()
        return deliver(policy.finalize(report.doubted(*alone), lines))
    try:
        merged = member.end(report.completed(), status, sorted({path for path, _ in lines}), policy.unused(lines))
    except OSError as error:
        report = report.doubted(f"the ranks could not be merged: {error}")
        return deliver(policy.finalize(report, lines))
    return deliver(shown(merged, policy)) if merged is not None else 0


def shown(merged: merging.Merged, policy: Policy) -> Report:
    """Return the report to show for a job; ranks that saw no operator do not make it incomplete if others did."""
    report = merged.report
    if report.summary.operators:
        report = replace(report, incomplete=tuple(text for text in report.incomplete if NOTHING_SEEN not in text))
    return policy.apply_baseline(policy.filter(report), merged.ran)
