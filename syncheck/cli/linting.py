"""The command that checks source code: lint."""

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncheck.cli.help import Command
from syncheck.cli.parameters import as_default, with_settings
from syncheck.cli.terminal import OutputStreams, check_outputs, deliver, progress
from syncheck.config.options import BY_NAME, Options
from syncheck.config.settings import Layer, forget, options_in
from syncheck.errors import ConfigError

if TYPE_CHECKING:
    from syncheck.commands.lint import LintRequest
    from syncheck.findings import Report
    from syncheck.lint.fixes.changes import Changes

_EXAMPLES = """Examples:

`syncheck lint` checks this folder.

`syncheck lint --fix src` applies the safe fixes in a folder."""
_FIX, _OUTPUT, _FILES = "Fixes", "Report", "Files"


def add_to(cli: typer.Typer) -> None:
    """Register the command."""
    cli.command(cls=Command, epilog=_EXAMPLES)(lint)


def _flag(name: str, text: str, panel: str) -> Any:
    return typer.Option(name, help=text, rich_help_panel=panel)


@with_settings("lint")
def lint(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...", help=f"Files and folders; - for standard input. {as_default('.')}", show_default=False
        ),
    ] = None,
    fix: Annotated[bool | None, _flag("--fix", "Apply fixes.", _FIX)] = None,
    unsafe_fixes: Annotated[
        bool | None, _flag("--unsafe-fixes", "Also apply fixes that make the host wait or guess the place.", _FIX)
    ] = None,
    diff: Annotated[bool | None, _flag("--diff", "Show what --fix would change.", _FIX)] = None,
    add_ignores: Annotated[bool | None, _flag("--add-ignores", "Add comments that silence all findings.", _FIX)] = None,
    remove_unused_ignores: Annotated[
        bool | None, _flag("--remove-unused-ignores", "Remove comments that silence nothing.", _FIX)
    ] = None,
    statistics: Annotated[bool | None, _flag("--statistics", "Count findings by rule.", _OUTPUT)] = None,
    show_files: Annotated[bool | None, _flag("--show-files", "List the files that would be checked.", _FILES)] = None,
    stdin_filename: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"File name for standard input. {as_default('stdin.py')}",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = "stdin.py",
    no_cache: Annotated[bool | None, _flag("--no-cache", "Do not read or write the cache.", _FILES)] = None,
    watch: Annotated[bool | None, _flag("--watch", "Check again whenever a file changes.", _FILES)] = None,
    *,
    layer: Layer,
) -> None:
    """Check source code without running it."""
    from syncheck.commands.lint import LintRequest, lint_files

    _check_report_options(layer, diff=diff, statistics=statistics)
    request = LintRequest(
        tuple(paths or (".",)),
        layer,
        (sys.stdin.buffer.read() if paths == ["-"] else b"", stdin_filename),
        _change(fix=fix, diff=diff, ignore=add_ignores, remove=remove_unused_ignores),
        bool(unsafe_fixes),
        None if no_cache else Path(".syncheck_cache"),
        progress(),
        tries_fixes=not statistics,
    )
    options = options_in("", layer, command="lint")
    check_outputs(options)
    if show_files:
        typer.echo("".join(f"{path}\n" for path in lint_files(request)), nl=False)
        return
    if watch:
        _watch(request, options, statistics=bool(statistics))
    raise typer.Exit(_lint_once(request, options, statistics=bool(statistics)))


def _change(*, fix: bool | None, diff: bool | None, ignore: bool | None, remove: bool | None) -> str:
    """Return the kind of change to make to the files; "" for none.

    Raises:
        ConfigError: the options contradict each other.
    """
    names = {"--fix": fix or diff, "--add-ignores": ignore, "--remove-unused-ignores": remove}
    wanted = [name for name, is_wanted in names.items() if is_wanted]
    if len(wanted) > 1:
        both = f"{wanted[0] if fix or not diff else '--diff'} and {wanted[1]}"
        raise ConfigError(f"{both} cannot be combined", "use one after the other")
    kinds = {"--fix": "diff" if diff else "fix", "--add-ignores": "ignore", "--remove-unused-ignores": "remove"}
    return kinds[wanted[0]] if wanted else ""


def _check_report_options(layer: Layer, *, diff: bool | None, statistics: bool | None) -> None:
    """Check that the command line has no options of the report together with one that replaces the report.

    Raises:
        ConfigError: it has.
    """
    flags = [flag for flag, is_given in (("--diff", diff), ("--statistics", statistics)) if is_given]
    ignored = {"output", "output_format"} | ({"write_baseline"} if diff else set())
    flags += [BY_NAME[name].options[0] for name, value in layer if name in ignored and value]
    if (diff or statistics) and len(flags) > 1:
        raise ConfigError(f"{flags[0]} and {flags[1]} cannot be combined", "omit one of them")


def _lint_once(request: "LintRequest", options: Options, *, statistics: bool) -> int:
    from syncheck.commands import lint as commands
    from syncheck.report.render import status_of

    report, changed = commands.lint(request)
    if request.change == "diff":
        return _show_diff(report, changed, options)
    is_stdout_taken = request.is_stdin and bool(request.change)
    if is_stdout_taken:  # by the changed text; an editor or a filter replaces the old one with it
        sys.stdout.buffer.write(changed.content)
        sys.stdout.flush()
    if statistics:
        for line in commands.statistics(report):
            typer.echo(line, err=is_stdout_taken)
        _show_incomplete(report)
        status = status_of(report, options)
    else:
        status = deliver(report, options, OutputStreams(is_for_data=True, is_stdout_taken=is_stdout_taken))
    return status or _status_if_incomplete(report, options)


def _show_diff(report: "Report", changed: "Changes", options: Options) -> int:
    """Print what --fix would change; return the exit status that this calls for."""
    from syncheck.findings import counted

    OutputStreams(is_for_data=True).write(changed.diff, is_data=True)
    _show_incomplete(report)
    n_fixed, n_found = len(changed.fixed), len(report.findings) + report.hidden + report.known
    if not options.quiet:
        of = f"{n_fixed:,} of " if n_fixed < n_found else ""
        typer.echo(f"Would fix {of}{counted(max(n_fixed, n_found), 'finding')}.", err=True)
    return int(bool(changed.diff) and not options.exit_zero) or _status_if_incomplete(report, options)


def _show_incomplete(report: "Report") -> None:
    for reason in report.incomplete:
        typer.echo(f"incomplete: {reason}", err=True)


def _status_if_incomplete(report: "Report", options: Options) -> int:
    """Return the exit status of a report without failing findings: if it is incomplete, there may be some."""
    from syncheck.findings import NO_FILES

    if not report.incomplete or (options.exit_zero and NO_FILES not in report.incomplete):
        return 0
    return 3 if len(report.incomplete) >= report.summary.files else 1


def _watch(request: "LintRequest", options: Options, *, statistics: bool) -> None:
    """Lint again whenever a file changes, until the user interrupts."""
    from syncheck.commands.lint import stamps

    seen: object = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            now = stamps(request)
            if now != seen:
                seen = now
                forget()
                if sys.stdout.isatty():
                    typer.echo("\x1b[2J\x1b[H", nl=False)  # flushes, unlike `write`
                _lint_once(request, options, statistics=statistics)
                sys.stdout.flush()
            time.sleep(0.5)
    raise typer.Exit(0)
