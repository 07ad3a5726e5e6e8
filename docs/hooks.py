"""Pages of the site that are made of the project itself: rules, commands, settings, pictures, the changelog.

Source:
    MkDocs, "Events": `on_files`, `on_nav`, `on_page_markdown`.
"""

import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

from syncheck.commands.rules import rule_page, sources
from syncheck.config.options import SETTINGS
from syncheck.rules.catalogue import CATALOGUE
from syncheck.rules.model import Family

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import pictures  # noqa: E402  beside this file

FAMILIES = {
    Family.RACE: "Races between streams",
    Family.LIFETIME: "Memory handed out too early",
    Family.HOST: "The host and copies in flight",
    Family.EVENT: "Events",
    Family.DEVICE: "Several devices",
    Family.COLLECTIVE: "Collectives",
    Family.TIMING: "Timing",
    Family.PERFORMANCE: "Speed",
    Family.GRAPH: "CUDA graphs",
}


def on_config(config):
    """Give every rule its entry in the navigation."""
    for entry in config.nav:
        if isinstance(entry, dict) and "Rules" in entry:
            entry["Rules"] = ["rules/index.md", *({f"{r.code} {r.name}": f"rules/{r.code}.md"} for r in CATALOGUE)]
    return config


def on_files(files, config):
    """Add the pages that are made."""
    pages = {f"rules/{rule.code}.md": rule_page(rule.code) for rule in CATALOGUE}
    pages["rules/index.md"] = rules_page()
    pages["commands.md"] = commands_page()
    pages["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    schema = "report-1.schema.json"
    pages[schema] = (ROOT / "syncheck/report" / schema).read_text(encoding="utf-8")
    pages |= {f"pictures/{name}.svg": picture() for name, picture in pictures.PICTURES.items()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Fill in tables, and make links into the repository links to where it is hosted."""
    markdown = markdown.replace("{{ settings }}", settings_table())
    return re.sub(
        r"\]\(\.\./((?:bench|fixtures|syncheck|tests)/[^)]*)\)", rf"]({config.repo_url}/blob/main/\1)", markdown
    )


def rules_page():
    """Return the list of all rules, by family."""
    lines = ["# Rules", "", "The same catalogue for `syncheck run` and `syncheck lint`.", ""]
    for family, title in FAMILIES.items():
        lines += [f"## {title}", "", "| rule | level | found by | |", "| --- | --- | --- | --- |"]
        for rule in CATALOGUE:
            if rule.family is family:
                found_by = ", ".join(sorted(sources(rule))) or "nothing yet"
                link = f"[{rule.code}]({rule.code}.md) {rule.name}"
                lines.append(f"| {link} | {rule.severity} | {found_by} | {rule.summary} |")
        lines.append("")
    return "\n".join(lines)


def commands_page():
    """Return every command with its options, as the program itself knows them."""
    from typer.main import get_command

    from syncheck.cli.app import cli

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
            lines += [f"| `{', '.join(option.opts)}` | {option.help or ''} |" for option in options]
            lines.append("")
    return "\n".join(lines)


def _metavar(argument):
    """Return how an argument is written in a usage line."""
    name = argument.metavar or argument.name.upper()
    shown = name if argument.required or name.startswith("[") else f"[{name}]"
    return f"{shown}..." if argument.nargs != 1 and not shown.endswith("...") else shown


def settings_table():
    """Return the table of the keys of `[tool.syncheck]`."""
    rows = ["| key | example | | for |", "| --- | --- | --- | --- |"]
    for setting in SETTINGS:
        if setting.is_in_file:
            commands = ", ".join(setting.commands)
            rows.append(f"| `{setting.key}` | `{setting.example}` | {setting.help} | {commands} |")
    return "\n".join(rows)
