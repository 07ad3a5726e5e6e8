"""One process of a program, and all of them together: what checks it, and which of them delivers the report."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
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
        ConfigError: a rule name that does not exist.
    """
    codes = options.selected()
    return Session(lambda rule: rule.code in codes, backend, on_finding)


def _import_torch() -> None:
    """Import torch.

    Raises:
        BackendError: there is none, or it cannot be imported.
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
    """Return the error for a torch that cannot be imported: often by a file of the program with a module's name."""
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
    """Return the job that checks this process, a member of those that `membership` knows.

    Args:
        options: how.
        deliver: prints a report and returns the exit status that it calls for.
        policy: what becomes of findings.
        at_end: called with the job and its report before this is delivered; returns what to deliver.
        details: says which GPUs are watched, and why.

    Raises:
        ConfigError: a rule name that does not exist, or models that cannot be loaded.
        BackendError: there is no torch, or no backend for it.
    """
    policy = policy or Policy(options)
    with details.timed("import of torch"):
        _import_torch()
        from syncheck.run import backends, sampled  # noqa: PLC0415  the first use of torch
        from syncheck.run.run import Run  # noqa: PLC0415

    def ended(report: Report, status: int) -> int:
        return conclude(at_end(run, report), status, run.sites.lines(), policy, deliver)

    import_all(options.models, options.root, "models")
    name, make_backend = backends.choose(options)
    if details.is_wanted:
        details.say(f"backend: {name}, {backends.reason(options)}")
    run = (Run if options.budget is None else sampled.SampledRun)(
        options, partial(new_session, options), policy, ended, name, make_backend
    )
    details.begin()
    member = rendezvous.active or rendezvous.begin(options.ranks_dir)
    member.on_join = lambda: watchdog.begin(
        options.hang_timeout, lambda frame: run.sites.place(run.sites.capture(frame)), run.end_now
    )
    return run


def run_ranks(options: Options, policy: Policy, deliver: Callable[[Report], int]) -> int:
    """Run this very command in several ranks, and deliver one report of all."""
    from syncheck.run.start_ranks import start_ranks  # noqa: PLC0415  it needs torch

    with tempfile.TemporaryDirectory(prefix="syncheck-") as folder:
        command = ["-m", "syncheck", *sys.argv[1:]]
        status = start_ranks(options.nproc, command, {rendezvous.PARTS: folder}, record.folder_of_lines())
        try:
            report = shown(merging.merge([Path(folder)]), policy)
        except RecordError as error:
            reason = f"no rank has written anything: {error}"
            report = Report(incomplete=(reason,))
        own = deliver(report)
        return status or own


def conclude(
    report: Report, status: int, lines: Iterable[tuple[str, int]], policy: Policy, deliver: Callable[[Report], int]
) -> int:
    """Deliver the report of a process: by itself, or with those of the other ranks of its job by the last of them.

    Args:
        report: as the policy applied it.
        status: the program's own exit status.
        lines: (path, line) of all its call sites.
        policy: what becomes of findings.
        deliver: prints a report and returns the exit status that it calls for.

    Returns:
        The exit status that the report calls for; 0 where another process delivers.
    """
    member, lines = rendezvous.active, list(lines)
    if member is None or writer.current() is None:
        if member is not None and member.has_children and not report.summary.operators and not report.findings:
            return 0  # it is the launcher of ranks on several machines, which report by themselves
        alone = (member.unmerged_reason,) if member is not None and member.unmerged_reason else ()
        report = replace(report, incomplete=(*report.incomplete, *alone))
        return deliver(policy.finalize(report, lines))
    try:
        merged = member.end(report.completed(), status, sorted({path for path, _ in lines}), policy.unused(lines))
    except OSError as error:
        report = replace(report, incomplete=(*report.incomplete, f"the ranks could not be merged: {error}"))
        return deliver(policy.finalize(report, lines))
    return deliver(shown(merged, policy)) if merged is not None else 0


def shown(merged: merging.Merged, policy: Policy) -> Report:
    """Return what is to be shown of a job's report; what only some ranks saw nothing of was checked by the others."""
    report = merged.report
    if report.summary.operators:
        report = replace(report, incomplete=tuple(text for text in report.incomplete if NOTHING_SEEN not in text))
    return policy.of_known(policy.filter(report), merged.ran)
