"""The run, replay and merge commands."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from syncheck.commands.details import announce, of_program, of_run
from syncheck.commands.reruns import Reruns, check_schedule
from syncheck.config.options import Options
from syncheck.filters.policy import Policy
from syncheck.findings import Report
from syncheck.ranks import rendezvous
from syncheck.run import launcher
from syncheck.run.process import make_run, new_session, run_ranks, shown
from syncheck.run.spawned import sender
from syncheck.run.trace import replaying
from syncheck.system import files, job
from syncheck.system.permanent import permanent_imports
from syncheck.witness.delay import parse

if TYPE_CHECKING:
    from syncheck.run.run import Run


def run(
    program: launcher.Program, options: Options, deliver: Callable[[Report], int], arguments: tuple[str, ...] = ()
) -> int:
    """Run a program under the sanitizer.

    Args:
        program: the program to run.
        options: the settings.
        deliver: prints a report and returns the exit status that it calls for.
        arguments: the settings as command-line arguments, for ranks that the program starts.

    Returns:
        The exit status: the program's own if it failed, else that of the report.

    Raises:
        ScriptError: the program cannot be read or compiled.
        ConfigError: a rule name does not exist, or settings contradict each other.
        BackendError: torch or a backend is missing.
    """
    details = of_run(options)
    policy = Policy(options, _suppresses_lint_finding)
    options.selected()
    options.check_budget()
    schedule = parse(options.schedule) if options.schedule else None
    prepared = launcher.load(program)
    check_schedule(schedule, prepared)
    announce(program, options)
    if options.nproc and rendezvous.PARTS not in os.environ:
        reruns = Reruns(prepared, options)
        return run_ranks(options, policy, lambda report: deliver(_proved(report, reruns)))
    member = rendezvous.begin(options.ranks_dir)
    member.arguments, member.for_spawned = arguments, sender(member, options)
    reruns = Reruns(prepared, options)
    is_rank = rendezvous.PARTS in os.environ

    def at_end(run: "Run", report: Report) -> Report:
        report = report if is_rank else _proved(report, reruns)  # the parent reruns all ranks
        if not options.is_drawn:
            return report
        from syncheck.commands.timeline import draw_run

        return draw_run(run.recorder, run.sites, report, options)

    with permanent_imports():
        checked = make_run(options, deliver, policy, of_program(details, prepared, at_end), details)
    if options.hang_timeout and job.is_distributed():
        member.on_join()  # even the first call, which creates the process group, may hang
    return checked.run(prepared)


def _proved(report: Report, reruns: Reruns) -> Report:
    """Return a report with the results of rerunning the program, if requested."""
    options = reruns.options
    wanted = next((name for name in ("confirm", "witness", "schedules") if getattr(options, name)), "")
    if not wanted:
        return report
    if job.is_distributed():
        return report.noted(f"--{wanted}: ranks are rerun only if --nproc started them")
    from syncheck.commands.witness import prove

    return prove(report, reruns)


def _suppresses_lint_finding(path: str, line: int) -> bool:
    """Return whether the comment at a line of a file suppresses a finding of the linter."""
    from syncheck.lint.engine import lint_data

    try:
        data = files.read(path)
    except OSError:
        return False
    result = lint_data(path, data, is_strict=True)
    return result.is_checked and all(line != unused for unused, _ in result.unused)


def merge(folders: tuple[Path, ...], options: Options) -> Report:
    """Merge the records that the ranks of a job wrote to folders.

    Raises:
        RecordError: there is nothing to merge.
        ConfigError: a rule name does not exist.
    """
    from syncheck.ranks import merging

    return shown(merging.merge(folders), Policy(options))


def replay(paths: Sequence[Path], options: Options) -> Report:
    """Replay a trace and return its findings.

    Args:
        paths: its files, just the first of them, or their folder.
        options: the settings.

    Raises:
        TraceError: the trace cannot be used.
        ConfigError: a rule name does not exist.
    """
    policy = Policy(options)
    if not options.is_drawn:
        return policy.finalize(policy.filter(replaying.replay(paths, lambda backend: new_session(options, backend))))
    from syncheck.commands.overlap import recorded
    from syncheck.commands.timeline import draw_run

    trace = recorded(paths, options)
    drawn = draw_run(trace.recorder, trace.sites, policy.filter(trace.report), options)
    found = policy.filter(replaying.combine([trace.report, *trace.others]))
    return policy.finalize(found.noted(*(note for note in drawn.notes if note not in found.notes)))
