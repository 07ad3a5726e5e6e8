"""Informational commands: rules, explain, config, doctor, lsp."""

import json
import os
import sys
from typing import Annotated, Any

import typer

from syncheck.cli.help import Command
from syncheck.cli.parameters import as_default, choices, in_brackets
from syncheck.cli.terminal import warn_of_unread_settings
from syncheck.errors import ConfigError

_FORMATS: Any = choices("output_format", ("text", "json"))
_Format = Annotated[
    _FORMATS,
    typer.Option(
        "--output-format", metavar="FORMAT", help=in_brackets("choices: text, json; default: text"), show_default=False
    ),
]


def add_to(cli: typer.Typer) -> None:
    """Register the commands."""
    cli.command(cls=Command, epilog="Examples: `syncheck rules`, `syncheck rules --output-format json`")(rules)
    cli.command(cls=Command, epilog="Examples: `syncheck explain SYN101`, `syncheck explain SYN2`")(explain)
    cli.command(cls=Command, epilog="Examples: `syncheck config`, `syncheck config src/loader.py`")(config)
    cli.command(
        cls=Command,
        epilog="Example: `syncheck lsp`, as the command of your editor's client; "
        "see https://syncheck.github.io/syncheck/editor/",
    )(lsp)
    cli.command(
        cls=Command, epilog="Examples: `syncheck doctor`, `syncheck doctor > environment.txt` for a bug report"
    )(doctor)


def rules(output_format: _Format = _FORMATS.text) -> None:
    """List all rules."""
    from syncheck.commands.rules import rule_table

    table = rule_table()
    if output_format is _FORMATS.json:
        typer.echo(json.dumps(table, indent=2))
        return
    _print_table(table)


def _print_table(table: list[dict[str, object]]) -> None:
    from syncheck.cli import tables

    for line in tables.rule_lines(table, tables.painter()):
        typer.echo(line, color=True)


def explain(
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE",
            help="A code or a name (SYN101, unordered-read), or a prefix: SYN2 lists all SYN2xx.",
            show_default=False,
        ),
    ],
) -> None:
    """Print the page of a rule, or list the rules of a family."""
    from syncheck.commands.rules import is_prefix, rule_page, rule_table

    if is_prefix(rule):
        _print_table(rule_table(rule))
        return
    page = rule_page(rule)
    if not sys.stdout.isatty():
        typer.echo(page)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(page))


def config(
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help=f"A file or folder. {as_default('.')}", show_default=False)
    ] = ".",
    output_format: _Format = _FORMATS.text,
) -> None:
    """Print the current settings, and where each comes from."""
    from syncheck.commands.doctor import effective_settings

    rows = effective_settings(path)
    warn_of_unread_settings(path if os.path.isdir(path) else os.path.dirname(path))
    if output_format is _FORMATS.json:
        typer.echo(json.dumps([dict(zip(("key", "value", "origin"), row, strict=True)) for row in rows], indent=2))
        return
    from syncheck.cli import tables

    for line in tables.setting_lines(rows, tables.painter()):
        typer.echo(line, color=True)


def lsp() -> None:
    """Run the language server: findings as you type, rule pages on hover, quick fixes."""
    try:
        from syncheck.cli.lsp import serve
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed", "pip install 'syncheck[lsp]'") from error
    serve()


def doctor() -> None:
    """Print what can be checked on this machine."""
    from syncheck.commands.doctor import doctor as inspect_machine

    for what, found in inspect_machine():
        typer.echo(f"{what + ':':<24} {found}")
