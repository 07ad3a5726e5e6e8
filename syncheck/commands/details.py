"""What a run prints before its report: a line on a terminal, or with `--verbose` its settings, program and timings."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from syncheck.config.options import Options
from syncheck.config.settings import sources
from syncheck.findings import Report
from syncheck.ranks import rendezvous
from syncheck.run.launcher import PreparedProgram, Program
from syncheck.system import job
from syncheck.system.details import Details

if TYPE_CHECKING:
    from syncheck.run.run import Run

AtEnd = Callable[["Run", Report], Report]
NO_SOURCE = "only the defaults and the command line"


def of_run(options: Options) -> Details:
    """Return the details writer of a run, after printing where its settings come from."""
    sender = f"syncheck: rank {job.rank()}" if job.is_distributed() else "syncheck"
    details = Details(is_wanted=options.verbose, sender=sender)
    if details.is_wanted:
        details.write_line(f"settings: {', '.join(sources('', options, 'run')) or NO_SOURCE}")
        if options.baseline is not None:
            details.write_line(f"baseline: {options.baseline}")
    return details


def announce(program: Program, options: Options) -> None:
    """Print on a terminal that a program is checked, because the report comes only at its end.

    `--verbose` names the program itself. Of several ranks, only the first or the process that starts them prints it.
    """
    is_repeated = options.verbose or job.rank() > 0 or rendezvous.PARTS in os.environ
    if not options.quiet and not is_repeated and sys.stderr is not None and sys.stderr.isatty():
        Details(is_wanted=True).write_line(f"checking {program.target}; the report follows at its end")


def of_program(details: Details, prepared: PreparedProgram, at_end: AtEnd) -> AtEnd:
    """Print which program is run; return a callback that prints how long it took and then calls `at_end`."""
    details.write_line(f"program: {prepared.path or prepared.program.target}")

    def ended(run: "Run", report: Report) -> Report:
        details.write_time("program, including the check")
        with details.timed("reruns and timelines"):
            return at_end(run, report)

    return ended
