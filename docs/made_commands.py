"""Generated pages of commands and settings."""

from typer.main import get_command

from syncheck.cli.app import cli
from syncheck.config.options import SETTINGS
from syncheck.pytest_plugin.settings import help_of, in_command_line


def pages():
    """Return the text of each page, by path."""
    return {"commands.md": _commands()}


def _commands():
    """Return the page with every command and its options."""
    lines = ["# Commands", ""]
    group = get_command(cli)
    context = group.make_context("syncheck", ["rules"], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        arguments = " ".join(_metavar(p) for p in command.params if p.param_type_name == "argument")
        lines += [
            f"## syncheck {name}",
            "",
            command.help or "",
            "",
            f"`syncheck {name} [OPTIONS] {arguments}`".rstrip(),
            "",
        ]
        options = [p for p in command.params if p.param_type_name == "option"]
        if options:
            lines += ["| option | |", "| --- | --- |"]
            lines += [f"| {_spelling(option)} | {option.help or ''} |" for option in options]
            lines.append("")
        if command.epilog:
            lines += [command.epilog, ""]
    return "\n".join(lines)


def _metavar(argument):
    """Return an argument as shown in a usage line."""
    name = argument.metavar or argument.name.upper()
    shown = name if argument.required or name.startswith("[") else f"[{name}]"
    return f"{shown}..." if argument.nargs != 1 and not shown.endswith("...") else shown


def _spelling(option):
    """Return an option with its other names and its value."""
    *others, last = (*option.opts, *option.secondary_opts)
    return ", ".join(f"`{name}`" for name in (*others, f"{last} {option.metavar}" if option.metavar else last))


def settings_table():
    """Return the table of the settings in `[tool.syncheck]`."""
    rows = ["| key | example | | for |", "| --- | --- | --- | --- |"]
    for setting in SETTINGS:
        if setting.is_in_file:
            commands = ", ".join(setting.commands)
            values = f" {setting.values[0].upper()}{setting.values[1:]}." if setting.values else ""
            rows.append(f"| `{setting.key}` | `{setting.example}` | {setting.help}{values} | {commands} |")
    return "\n".join(rows)


def pytest_table():
    """Return the table of the plugin's options, and of those among them that pytest's configuration can set."""
    rows = ["| option | configuration | |", "| --- | --- | --- |"]
    for setting in in_command_line():
        own = f"`syncheck_{setting.name}`" if setting.is_in_file else ""
        rows.append(f"| `--syncheck-{setting.key}` | {own} | {help_of(setting)} |")
    return "\n".join(rows)
