"""The command line: parse, call app, print, exit."""

import contextlib
import json
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from syncheck import __version__, app
from syncheck.cli.terminal import OutputStreams, deliver, error_text, progress
from syncheck.config.options import Options
from syncheck.config.settings import (
    BACKENDS,
    FORMATS,
    MOST_DEVICES,
    THIRD_PARTY,
    Layer,
    as_arguments,
    forget,
    given,
    options_in,
)
from syncheck.errors import ConfigError, ScriptError, SyncheckError
from syncheck.filters.policy import is_distributed, rank
from syncheck.findings import Report
from syncheck.rules.model import Severity

cli = typer.Typer(
    name="syncheck",
    help="Is this PyTorch program's GPU synchronization correct?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# What is left out on the command line is None, so that [tool.syncheck] of pyproject.toml can say it.
Names = Annotated[list[str] | None, typer.Option(help="Rule codes, prefixes (SYN1) or names; commas or repeated.")]
Format = Annotated[str | None, typer.Option(help=f"{', '.join(FORMATS)}.")]
Output = Annotated[Path | None, typer.Option(help="Write the report to this file.")]
FailOn = Annotated[Severity | None, typer.Option(help="The mildest level that makes the exit status 1.")]
Limit = Annotated[int | None, typer.Option(min=0, help="Show at most this many findings; 0 for all.")]
Stacks = Annotated[bool | None, typer.Option("--stacks", help="Show whole call stacks.")]
BaselineFile = Annotated[Path | None, typer.Option("--baseline", help="File of known findings, which fail nothing.")]
WriteBaseline = Annotated[
    bool | None, typer.Option("--write-baseline", help="Make the findings of now the known ones.")
]
ThirdParty = Annotated[str | None, typer.Option(help="Findings in installed packages alone: short, full or off.")]

_RUN_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@cli.command(context_settings=_RUN_SETTINGS)
def run(
    script: Annotated[str, typer.Argument(help="The script, or with -m the module.", show_default=False)],
    args: Annotated[list[str] | None, typer.Argument(help="The program's own arguments.")] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module, as in `python -m`.")] = False,  # noqa: FBT002
    backend: Annotated[str | None, typer.Option(help="auto, cuda or sim (simulated GPUs).")] = None,
    devices: Annotated[int | None, typer.Option(min=1, max=MOST_DEVICES, help="Number of simulated GPUs.")] = None,
    select: Names = None,
    extend_select: Names = None,
    ignore: Names = None,
    third_party: ThirdParty = None,
    baseline: BaselineFile = None,
    write_baseline: WriteBaseline = None,
    fail_on: FailOn = None,
    fail_fast: Annotated[bool | None, typer.Option("--fail-fast", help="End at the first failing finding.")] = None,
    max_findings: Limit = None,
    output_format: Format = None,
    output: Output = None,
    stacks: Stacks = None,
    trace: Annotated[Path | None, typer.Option(help="Record the run in this file, for `syncheck replay`.")] = None,
    steps: Annotated[str, typer.Option(help="Check only these optimizer steps: 100:120, or 100: to the end.")] = "",
    nproc: Annotated[
        int | None, typer.Option(min=1, help="Start so many ranks of the program on this machine.")
    ] = None,
    hang_timeout: Annotated[float | None, typer.Option(min=0, help="End a job that hangs for so many seconds.")] = None,
    ranks_dir: Annotated[Path | None, typer.Option(help="Shared folder for what the ranks tell each other.")] = None,
) -> None:
    """Run a program and check its GPU synchronization."""
    layer = _layer(
        backend=_one_of("backend", backend, BACKENDS), devices=devices, select=select, extend_select=extend_select,
        ignore=ignore, third_party=third_party, baseline=baseline, write_baseline=write_baseline, fail_on=fail_on,
        fail_fast=fail_fast, max_findings=max_findings, output_format=output_format, output=output, stacks=stacks,
        trace=trace, steps=_steps(steps), nproc=nproc, hang_timeout=hang_timeout, ranks_dir=ranks_dir,
    )  # fmt: skip
    options = options_in("", layer, command="run")
    from syncheck.run.launcher import Program  # noqa: PLC0415  not needed by the other commands

    program = Program(script, tuple(args or ()), module)
    streams = OutputStreams(sys.stdout.fileno(), sys.stderr.fileno())  # the program may redirect or close its own
    own = as_arguments(layer)
    raise typer.Exit(
        app.run(program, options, lambda report: deliver(report, _for_rank(options, report), streams), own)
    )


def _for_rank(options: Options, report: Report) -> Options:
    """Return the settings for a report: ranks that are not merged write files of their own."""
    return replace(options, output=_own(options.output)) if options.output and not report.summary.ranks else options


def _own(path: Path) -> Path:
    """Return the name of this rank's own file, of one for all ranks."""
    return path.with_name(f"{path.stem}.rank{rank()}{path.suffix}") if is_distributed() else path


@cli.command()
def merge(
    folders: Annotated[list[Path], typer.Argument(help="Where the ranks of a job have written.", show_default=False)],
    select: Names = None,
    extend_select: Names = None,
    ignore: Names = None,
    third_party: ThirdParty = None,
    baseline: BaselineFile = None,
    write_baseline: WriteBaseline = None,
    fail_on: FailOn = None,
    max_findings: Limit = None,
    output_format: Format = None,
    output: Output = None,
    stacks: Stacks = None,
) -> None:
    """Make one report of what the ranks of a job have written, also of those that died."""
    options = options_in("", _layer(
        select=select, extend_select=extend_select, ignore=ignore, third_party=third_party, baseline=baseline,
        write_baseline=write_baseline, fail_on=fail_on, max_findings=max_findings, output_format=output_format,
        output=output, stacks=stacks,
    ), command="merge")  # fmt: skip
    streams = OutputStreams(sys.stdout.fileno(), sys.stdout.fileno())
    raise typer.Exit(deliver(app.merge(tuple(folders), options), options, streams))


@cli.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="A file that `syncheck run --trace` wrote.")],
    select: Names = None,
    extend_select: Names = None,
    ignore: Names = None,
    third_party: ThirdParty = None,
    baseline: BaselineFile = None,
    write_baseline: WriteBaseline = None,
    fail_on: FailOn = None,
    max_findings: Limit = None,
    output_format: Format = None,
    output: Output = None,
    stacks: Stacks = None,
) -> None:
    """Check a recorded run again, without the program and without torch."""
    options = options_in("", _layer(
        select=select, extend_select=extend_select, ignore=ignore, third_party=third_party, baseline=baseline,
        write_baseline=write_baseline, fail_on=fail_on, max_findings=max_findings, output_format=output_format,
        output=output, stacks=stacks,
    ), command="replay")  # fmt: skip
    streams = OutputStreams(sys.stdout.fileno(), sys.stdout.fileno())
    raise typer.Exit(deliver(app.replay(trace, options), options, streams))


@cli.command()
def lint(
    paths: Annotated[list[str] | None, typer.Argument(help="Files and folders; - for standard input.")] = None,
    select: Names = None,
    extend_select: Names = None,
    ignore: Names = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Patterns to leave out, as in a .gitignore.")] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what one line repairs.")] = False,  # noqa: FBT002
    unsafe_fixes: Annotated[bool, typer.Option("--unsafe-fixes", help="Also where the host has to wait.")] = False,  # noqa: FBT002
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change.")] = False,  # noqa: FBT002
    add_ignores: Annotated[bool, typer.Option("--add-ignores", help="Silence all findings by comments.")] = False,  # noqa: FBT002
    baseline: BaselineFile = None,
    write_baseline: WriteBaseline = None,
    fail_on: FailOn = None,
    max_findings: Limit = None,
    output_format: Format = None,
    output: Output = None,
    statistics: Annotated[bool, typer.Option("--statistics", help="Count findings by rule.")] = False,  # noqa: FBT002
    show_files: Annotated[bool, typer.Option("--show-files", help="List the files, and lint none.")] = False,  # noqa: FBT002
    no_gitignore: Annotated[bool, typer.Option("--no-respect-gitignore", help="Lint ignored files too.")] = False,  # noqa: FBT002
    stdin_filename: Annotated[str, typer.Option(help="Name of what standard input holds.")] = "stdin.py",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor write a cache.")] = False,  # noqa: FBT002
    watch: Annotated[bool, typer.Option("--watch", help="Lint again whenever a file changes.")] = False,  # noqa: FBT002
) -> None:
    """Find the same mistakes in source, without running it."""
    layer = _layer(
        select=select, extend_select=extend_select, ignore=ignore, exclude=tuple(exclude or ()), baseline=baseline,
        write_baseline=write_baseline, fail_on=fail_on, max_findings=max_findings, output_format=output_format,
        output=output, respect_gitignore=False if no_gitignore else None,
    )  # fmt: skip
    request = app.LintRequest(
        tuple(paths or (".",)),
        layer,
        (sys.stdin.buffer.read() if paths == ["-"] else b"", stdin_filename),
        "diff" if diff else "fix" if fix else "ignore" if add_ignores else "",
        unsafe_fixes,
        None if no_cache else Path(".syncheck_cache"),
        progress(),
    )
    options = options_in("", layer, command="lint")
    if show_files:
        typer.echo("".join(f"{path}\n" for path in app.lint_files(request)), nl=False)
        return
    if watch:
        _watch(request, options)
    raise typer.Exit(_lint_once(request, options, statistics=statistics))


def _lint_once(request: app.LintRequest, options: Options, *, statistics: bool) -> int:
    report, changed = app.lint(request)
    if request.change == "diff":
        sys.stdout.write(changed)
        return int(bool(changed))
    if statistics:
        for line in app.statistics(report):
            typer.echo(line)
        status = app.status_of(report, options)
    else:
        status = deliver(report, options, OutputStreams(sys.stdout.fileno(), sys.stdout.fileno()))
    if status == 0 and report.incomplete:
        return 3 if len(report.incomplete) >= report.summary.files else 1
    return status


def _layer(**values: Any) -> Layer:
    """Return the settings of the command line: names are split, choices checked, and paths made to stay the same."""
    for name in ("select", "extend_select", "ignore"):
        if name in values:
            values[name] = tuple(n for entry in values[name] or () for n in entry.split(",") if n.strip())
    _one_of("output format", values.get("output_format"), FORMATS)
    _one_of("choice for third-party", values.get("third_party"), THIRD_PARTY)
    for name in ("output", "trace", "baseline", "ranks_dir"):  # the program may change the working directory
        if values.get(name) is not None:
            values[name] = values[name].absolute()
    if values.get("trace") is not None:
        values["trace"] = _own(values["trace"])
    return given(**values)


def _watch(request: app.LintRequest, options: Options) -> None:
    """Lint again whenever a file changes, until the user interrupts."""
    import time  # noqa: PLC0415

    seen: object = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            now = app.stamps(request)
            if now != seen:
                seen = now
                forget()
                if sys.stdout.isatty():
                    typer.echo("\x1b[2J\x1b[H", nl=False)  # which flushes, unlike `write`
                _lint_once(request, options, statistics=False)
                sys.stdout.flush()
            time.sleep(0.5)
    raise typer.Exit(0)


@cli.command()
def rules(output_format: Annotated[str, typer.Option(help="text or json.")] = "text") -> None:
    """List all rules."""
    table = app.rule_table()
    if _one_of("output format", output_format, ("text", "json")) == "json":
        typer.echo(json.dumps(table, indent=2))
        return
    for row in table:
        found_by = ", ".join(row["halves"]) or "-"  # type: ignore[arg-type]  # a list of strings
        typer.echo(f"{row['code']}  {row['name']:<30} {row['level']:<8} {found_by:<10} {row['summary']}")


@cli.command()
def explain(rule: Annotated[str, typer.Argument(help="A code or a name: SYN101, unordered-read.")]) -> None:
    """Print the page of a rule."""
    page = app.rule_page(rule)
    if not sys.stdout.isatty():
        typer.echo(page)
        return
    from rich.console import Console  # noqa: PLC0415  only for a terminal
    from rich.markdown import Markdown  # noqa: PLC0415

    Console().print(Markdown(page))


@cli.command()
def config(
    path: Annotated[str, typer.Argument(help="A file or folder whose settings are wanted.")] = ".",
    output_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Print the settings in force, and where each comes from."""
    rows = app.settings_of(path)
    if _one_of("output format", output_format, ("text", "json")) == "json":
        typer.echo(json.dumps([dict(zip(("key", "value", "origin"), row, strict=True)) for row in rows], indent=2))
        return
    for key, value, origin in rows:
        typer.echo(f"{key:<20} {value:<36} {origin}")


@cli.command()
def lsp() -> None:
    """Serve an editor: findings as you type, rule pages on hover, quick fixes."""
    try:
        from syncheck.lsp import serve  # noqa: PLC0415  it needs pygls
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed", "pip install 'syncheck[lsp]'") from error
    serve()


@cli.command()
def doctor() -> None:
    """Say what can be checked on this machine."""
    for what, found in app.doctor():
        typer.echo(f"{what + ':':<24} {found}")


def _version(value: bool) -> None:  # noqa: FBT001  typer's callback
    if value:
        typer.echo(f"syncheck {__version__} ({app.torch_in_short()})")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")]


@cli.callback()
def options(
    version: Version = False,  # noqa: FBT002
) -> None:
    """Is this PyTorch program's GPU synchronization correct?"""
    del version


def _steps(text: str) -> tuple[int, int | None] | None:
    """Read "100:120" or "100:"; "" is None."""
    if not text:
        return None
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and (not last or last.isdecimal())):
        raise ConfigError(f"--steps {text!r} is no range of steps", "write FIRST:LAST, as in --steps 100:120")
    if last and int(last) <= int(first):
        raise ConfigError(f"--steps {text!r} is empty", "the second number must be greater than the first")
    return int(first), int(last) if last else None


def _one_of(what: str, value: str | None, allowed: tuple[str, ...]) -> str | None:
    if value is None or value in allowed:
        return value
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(value, allowed, 1)
    hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(allowed)}"
    raise ConfigError(f"there is no {what} {value!r}", hint)


def main() -> None:
    """Run the command line; the exit statuses are those of the README."""
    try:
        cli()
    except SyncheckError as error:
        sys.stderr.write(error_text(str(error), error.hint))
        sys.exit(_status_of(error))
    except Exception:  # noqa: BLE001  the outer border: whatever is left is our own fault
        traceback.print_exc()
        sys.stderr.write(error_text("this is a bug in syncheck", "please report it with the traceback above"))
        sys.exit(3)


def _status_of(error: SyncheckError) -> int:
    """Return 2 for a wrong command line, 3 where nothing could be checked."""
    if isinstance(error, ScriptError):
        return 3 if isinstance(error.__cause__, SyntaxError) else 2
    return 2 if isinstance(error, ConfigError) else 3


if __name__ == "__main__":
    main()
