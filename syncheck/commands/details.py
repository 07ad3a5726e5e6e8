"""Output of `--verbose` for every run: the settings, the program, and timings."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from syncheck.config.options import Options
from syncheck.config.settings import sources
from syncheck.filters.policy import is_distributed, rank
from syncheck.findings import Report
from syncheck.run.launcher import PreparedProgram
from syncheck.system.details import Details

if TYPE_CHECKING:
    from syncheck.run.run import Run

AtEnd = Callable[["Run", Report], Report]
NO_SOURCE = "only the defaults and the command line"


def of_run(options: Options) -> Details:
    """Return the details writer of a run, after printing where its settings come from."""
    details = Details(is_wanted=options.verbose, sender=f"syncheck: rank {rank()}" if is_distributed() else "syncheck")
    if details.is_wanted:
        details.write_line(f"settings: {', '.join(sources('', options, 'run')) or NO_SOURCE}")
        if options.baseline is not None:
            details.write_line(f"baseline: {options.baseline}")
    return details


def of_program(details: Details, prepared: PreparedProgram, at_end: AtEnd) -> AtEnd:
    """Print which program is run; return a callback that prints how long it took and then calls `at_end`."""
    details.write_line(f"program: {prepared.path or prepared.program.target}")

    def ended(run: "Run", report: Report) -> Report:
        details.write_time("program, including the check")
        with details.timed("reruns and timelines"):
            return at_end(run, report)

    return ended
