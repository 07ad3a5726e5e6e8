"""The command line: parse, call app, print, exit."""

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncheck import __version__, app
from syncheck.config import LintOptions, Options
from syncheck.errors import ConfigError, ScriptError, SyncheckError
from syncheck.findings import Report
from syncheck.rules.model import Severity

if TYPE_CHECKING:
    from rich.progress import Progress

cli = typer.Typer(
    name="syncheck",
    help="Is this PyTorch program's GPU synchronization correct?",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Names = Annotated[list[str] | None, typer.Option(help="Rule codes, prefixes (SYN1) or names; commas or repeated.")]
FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "junit")
Format = Annotated[str, typer.Option(help="text, concise, json, sarif, github, gitlab or junit.")]
_PATIENCE = 2.0
"""Seconds until a progress bar is shown."""
Output = Annotated[Path | None, typer.Option(help="Write the report to this file.")]
FailOn = Annotated[Severity, typer.Option(help="The mildest level that makes the exit status 1.")]
Limit = Annotated[int, typer.Option(min=0, help="Show at most this many findings; 0 for all.")]
Stacks = Annotated[bool, typer.Option("--stacks", help="Show whole call stacks.")]

_RUN_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@cli.command(context_settings=_RUN_SETTINGS)
def run(
    script: Annotated[str, typer.Argument(help="The script, or with -m the module.", show_default=False)],
    args: Annotated[list[str] | None, typer.Argument(help="The program's own arguments.")] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module, as in `python -m`.")] = False,  # noqa: FBT002
    backend: Annotated[str, typer.Option(help="auto, cuda or sim (simulated GPUs).")] = "auto",
    devices: Annotated[int, typer.Option(min=1, max=64, help="Number of simulated GPUs.")] = 2,
    select: Names = None,
    ignore: Names = None,
    fail_on: FailOn = Severity.WARNING,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="End at the first failing finding.")] = False,  # noqa: FBT002
    max_findings: Limit = 0,
    output_format: Format = "text",
    output: Output = None,
    stacks: Stacks = False,  # noqa: FBT002
    trace: Annotated[Path | None, typer.Option(help="Record the run in this file, for `syncheck replay`.")] = None,
    steps: Annotated[str, typer.Option(help="Check only these optimizer steps: 100:120, or 100: to the end.")] = "",
) -> None:
    """Run a program and check its GPU synchronization."""
    options = Options(
        _one_of("backend", backend, ("auto", "cuda", "sim")), devices, _split(select), _split(ignore), fail_on,
        fail_fast, max_findings, _format(output_format), _absolute(output), stacks, _absolute(trace),
        _steps(steps),
    )  # fmt: skip
    from syncheck.launcher import Program  # noqa: PLC0415  not needed by the other commands

    program = Program(script, tuple(args or ()), module)
    outlet = Outlet(sys.stdout.fileno(), sys.stderr.fileno())  # the program may redirect or close its own
    raise typer.Exit(app.run(program, options, lambda report: deliver(report, options, outlet)))


@cli.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="A file that `syncheck run --trace` wrote.")],
    select: Names = None,
    ignore: Names = None,
    fail_on: FailOn = Severity.WARNING,
    max_findings: Limit = 0,
    output_format: Format = "text",
    output: Output = None,
    stacks: Stacks = False,  # noqa: FBT002
) -> None:
    """Check a recorded run again, without the program and without torch."""
    options = Options(
        select=_split(select), ignore=_split(ignore), fail_on=fail_on, max_findings=max_findings,
        output_format=_format(output_format), output=_absolute(output), stacks=stacks,
    )  # fmt: skip
    outlet = Outlet(sys.stdout.fileno(), sys.stdout.fileno())
    raise typer.Exit(deliver(app.replay(trace, options), options, outlet))


@cli.command()
def lint(
    paths: Annotated[list[str] | None, typer.Argument(help="Files and folders; - for standard input.")] = None,
    select: Names = None,
    ignore: Names = None,
    extend_select: Names = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Patterns to leave out, as in a .gitignore.")] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what one line repairs.")] = False,  # noqa: FBT002
    unsafe_fixes: Annotated[bool, typer.Option("--unsafe-fixes", help="Also where the host has to wait.")] = False,  # noqa: FBT002
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change.")] = False,  # noqa: FBT002
    add_ignores: Annotated[bool, typer.Option("--add-ignores", help="Silence all findings by comments.")] = False,  # noqa: FBT002
    fail_on: FailOn = Severity.WARNING,
    max_findings: Limit = 0,
    output_format: Format = "text",
    output: Output = None,
    statistics: Annotated[bool, typer.Option("--statistics", help="Count findings by rule.")] = False,  # noqa: FBT002
    show_files: Annotated[bool, typer.Option("--show-files", help="List the files, and lint none.")] = False,  # noqa: FBT002
    no_gitignore: Annotated[bool, typer.Option("--no-respect-gitignore", help="Lint ignored files too.")] = False,  # noqa: FBT002
    stdin_filename: Annotated[str, typer.Option(help="Name of what standard input holds.")] = "stdin.py",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor write a cache.")] = False,  # noqa: FBT002
    watch: Annotated[bool, typer.Option("--watch", help="Lint again whenever a file changes.")] = False,  # noqa: FBT002
) -> None:
    """Find the same mistakes in source, without running it."""
    request = app.LintRequest(
        tuple(paths or (".",)),
        LintOptions(_split(select), _split(extend_select), _split(ignore), (), tuple(exclude or ()), not no_gitignore,
                    fail_on),
        (sys.stdin.buffer.read() if paths == ["-"] else b"", stdin_filename),
        "diff" if diff else "fix" if fix else "ignore" if add_ignores else "",
        unsafe_fixes,
        None if no_cache else Path(".syncheck_cache"),
        _progress(),
    )  # fmt: skip
    options = Options(fail_on=fail_on, max_findings=max_findings, output_format=_format(output_format),
                      output=_absolute(output))  # fmt: skip
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
    if options.max_findings:
        hidden = max(0, len(report.findings) - options.max_findings)
        report = replace(report, findings=report.findings[: options.max_findings], hidden=hidden)
    if statistics:
        for line in app.statistics(report):
            typer.echo(line)
        status = app.status_of(report, options)
    else:
        status = deliver(report, options, Outlet(sys.stdout.fileno(), sys.stdout.fileno()))
    if status == 0 and report.incomplete:
        return 3 if len(report.incomplete) >= report.summary.files else 1
    return status


def _watch(request: app.LintRequest, options: Options) -> None:
    """Lint again whenever a file changes, until the user interrupts."""
    import time  # noqa: PLC0415

    seen: object = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            now = app.stamps(request)
            if now != seen:
                seen = now
                if sys.stdout.isatty():
                    typer.echo("\x1b[2J\x1b[H", nl=False)  # which flushes, unlike `write`
                _lint_once(request, options, statistics=False)
                sys.stdout.flush()
            time.sleep(0.5)
    raise typer.Exit(0)


def _progress() -> Callable[[int, int], None]:
    """Return what shows a bar on a terminal once linting has taken two seconds."""
    import time  # noqa: PLC0415

    began = time.monotonic()
    bar: Progress | None = None

    def show(done: int, of: int) -> None:
        nonlocal bar
        if bar is None:
            if not sys.stderr.isatty() or time.monotonic() - began < _PATIENCE:
                return
            from rich.console import Console  # noqa: PLC0415
            from rich.progress import Progress  # noqa: PLC0415

            bar = Progress(console=Console(stderr=True), transient=True)
            bar.add_task("files")
            bar.start()
        bar.update(bar.task_ids[0], completed=done, total=of)
        if done >= of:
            bar.stop()

    return show


@cli.command()
def rules(output_format: Format = "text") -> None:
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
def doctor() -> None:
    """Say what can be checked on this machine."""
    for what, found in app.doctor():
        typer.echo(f"{what + ':':<24} {found}")


def _version(value: bool) -> None:  # noqa: FBT001  typer's callback
    if value:
        typer.echo(f"syncheck {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")]


@cli.callback()
def options(
    version: Version = False,  # noqa: FBT002
) -> None:
    """Is this PyTorch program's GPU synchronization correct?"""
    del version


class Outlet:
    """Where reports go: copies of the descriptors that this process was started with.

    Args:
        data: descriptor for reports that programs read.
        people: descriptor for reports that people read.
    """

    def __init__(self, data: int, people: int) -> None:
        self._data = os.dup(data)
        self._people = os.dup(people)

    def write(self, text: str, *, is_data: bool) -> None:
        """Write a report; a reader that is gone is no error."""
        with (
            contextlib.suppress(BrokenPipeError),
            os.fdopen(os.dup(self._pick(is_data=is_data)), "w", encoding="utf-8") as file,
        ):
            file.write(text)

    def is_colored(self, *, is_data: bool) -> bool:
        """Tell whether a report may use colours."""
        return os.isatty(self._pick(is_data=is_data)) and "NO_COLOR" not in os.environ

    def _pick(self, *, is_data: bool) -> int:
        return self._data if is_data else self._people


def deliver(report: Report, options: Options, outlet: Outlet) -> int:
    """Print a report where the user wants it; return the exit status that it calls for.

    A report that cannot be written to its file is printed all the same, so that no finding is lost.
    """
    report = app.completed(report)
    status = app.status_of(report, options)
    is_data = options.output_format not in {"text", "concise"}
    if options.output is not None:
        try:
            options.output.write_text(app.render(report, options, color=False), encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            outlet.write(
                error_text(f"cannot write the report to {options.output}: {reason}", "it follows here"), is_data=False
            )
            outlet.write(app.render(report, options, color=False), is_data=False)
            return 3
        return status
    outlet.write(app.render(report, options, color=outlet.is_colored(is_data=is_data)), is_data=is_data)
    return status


def error_text(message: str, hint: str = "") -> str:
    """Return an error, and what to do about it, for people."""
    return f"syncheck: error: {message}\n" + (f"  hint: {hint}\n" if hint else "")


def _absolute(path: Path | None) -> Path | None:
    """Return a path that still means the same file when the program has changed the working directory."""
    return None if path is None else path.absolute()


def _split(names: list[str] | None) -> tuple[str, ...]:
    return tuple(name for entry in names or () for name in entry.split(",") if name.strip())


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


def _format(value: str) -> str:
    return _one_of("output format", value, FORMATS)


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> str:
    if value in allowed:
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
