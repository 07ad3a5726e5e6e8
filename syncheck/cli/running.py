"""Commands that check programs and recordings: run, replay, overlap, merge."""

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncheck.cli.help import Command
from syncheck.cli.misplaced import misplaced, missing
from syncheck.cli.parameters import with_settings
from syncheck.cli.terminal import OutputStreams, check_outputs, deliver, deliver_overlap
from syncheck.config.options import Options
from syncheck.config.settings import Layer, as_arguments, options_in
from syncheck.findings import Report
from syncheck.system import job

if TYPE_CHECKING:
    from syncheck.overlap.report import OverlapReport

_RUN_EXAMPLES = """Examples:

`syncheck run train.py --epochs 1` checks a script on the machine's GPUs, or on simulated ones.

`syncheck run --backend sim --devices 4 -m train` checks a module on four simulated GPUs."""
_REPLAY_EXAMPLES = """Examples:

`syncheck run --trace run.trace train.py` records a run.

`syncheck replay run.trace --output-format json` checks it again.

`syncheck replay run.0007.trace run.0008.trace` checks two files of a long recording."""
_MERGE_EXAMPLES = """Examples:

`syncheck merge .syncheck/job-20260101-120000-1a2b3c4d` merges one job.

`syncheck merge node0/ node1/ --output-format sarif` merges folders of several machines."""


_OVERLAP_EXAMPLES = """Examples:

`syncheck overlap train.py` runs a script and shows what keeps its work from overlapping.

`syncheck overlap run.trace` analyzes a run that `syncheck run --trace run.trace --times train.py` recorded."""


def add_to(cli: typer.Typer) -> None:
    """Register the commands."""
    cli.command(cls=Command, context_settings={"allow_interspersed_args": False}, epilog=_RUN_EXAMPLES)(run)
    cli.command(cls=Command, epilog=_REPLAY_EXAMPLES)(replay)
    cli.command(cls=Command, context_settings={"allow_interspersed_args": False}, epilog=_OVERLAP_EXAMPLES)(overlap)
    cli.command(cls=Command, epilog=_MERGE_EXAMPLES)(merge)


_OF_EACH_RANK = frozenset({"trace", "perfetto", "html"})
_Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGS]...", help="The program's own arguments.", show_default=False)
]
_IsModule = Annotated[bool | None, typer.Option("-m", help="SCRIPT is a module, as in `python -m`.")]


@with_settings("run")
def run(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="The script, or the module with -m.", show_default=False)
    ],
    args: _Arguments = None,
    module: _IsModule = None,
    *,
    layer: Layer,
) -> None:
    """Run a program and check its GPU synchronization.

    Options of syncheck go before SCRIPT; what follows it is passed to the program.
    """
    import_module("syncheck.report.render")  # the program may make imports impossible by the time it ends
    from syncheck.commands import run as commands
    from syncheck.run.launcher import Program

    options = options_in("", _of_rank(layer), command="run")
    check_outputs(options)
    streams = OutputStreams(is_for_data=False)
    program = Program(script, tuple(args or ()), bool(module))
    notes = () if module else misplaced(script, program.arguments)

    def show(report: Report) -> int:
        return deliver(report.noted(*notes, *missing(script, options, report)), _for_rank(options, report), streams)

    raise typer.Exit(commands.run(program, options, show, as_arguments(layer)))


def _for_rank(options: Options, report: Report) -> Options:
    """Return the settings for a report: unmerged ranks write separate files."""
    if options.output and job.is_distributed() and not report.summary.ranks:
        return replace(options, output=_rank_path(options.output))
    return options


def _of_rank(layer: Layer) -> Layer:
    """Return settings that name this rank's own files, if it is one of several, or if its parent writes files, too."""
    from syncheck.ranks.rendezvous import PARTS

    is_started_by_program = PARTS in os.environ and "nproc" not in dict(layer)
    if not (job.is_distributed() or is_started_by_program):
        return layer
    return tuple((name, _rank_path(value) if name in _OF_EACH_RANK else value) for name, value in layer)


def _rank_path(path: Path) -> Path:
    """Return this rank's own variant of a file name that is given for all ranks."""
    return path.with_name(f"{path.stem}.rank{job.rank()}{path.suffix}")


@with_settings("replay")
def replay(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help="Files written by `syncheck run --trace`; the first one, or the folder, is enough.",
            show_default=False,
        ),
    ],
    *,
    layer: Layer,
) -> None:
    """Check a recorded run again; needs neither the program nor torch."""
    from syncheck.commands import run as commands

    options = options_in("", layer, command="replay")
    check_outputs(options)
    streams = OutputStreams(is_for_data=True)
    raise typer.Exit(deliver(commands.replay(traces, options), options, streams))


@with_settings("overlap")
def overlap(
    script: Annotated[
        str,
        typer.Argument(metavar="SCRIPT", help="The script, a trace, or the module with -m.", show_default=False),
    ],
    args: _Arguments = None,
    module: _IsModule = None,
    *,
    layer: Layer,
) -> None:
    """Explain why GPU work does not overlap, and what each wait costs."""
    import_module("syncheck.report.overlap_table")  # as for `run`
    from syncheck.commands import overlap as commands
    from syncheck.run.launcher import Program

    options = options_in("", _of_rank(layer), command="overlap")
    check_outputs(options)
    streams = OutputStreams(is_for_data=True)

    def show(overlap_report: "OverlapReport", report: Report) -> None:
        deliver_overlap(overlap_report, report, options, streams)

    if not module and commands.is_trace(Path(script)):
        commands.replay(Path(script), options, show)
        raise typer.Exit(0)
    raise typer.Exit(commands.run(Program(script, tuple(args or ()), bool(module)), options, show))


@with_settings("merge")
def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders with the records of ranks.", show_default=False)
    ],
    *,
    layer: Layer,
) -> None:
    """Merge the records of a job's ranks into one report, including ranks that died."""
    from syncheck.commands import run as commands

    options = options_in("", layer, command="merge")
    check_outputs(options)
    streams = OutputStreams(is_for_data=True)
    raise typer.Exit(deliver(commands.merge(tuple(folders), options), options, streams))
