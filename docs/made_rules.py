"""Generated pages of the rules, grouped by family, each with a bad and a good example side by side."""

import ast
import difflib
from html import escape

from syncheck.commands.rules import rule_page, sources
from syncheck.rules.catalogue import CATALOGUE
from syncheck.rules.model import Family
from syncheck.rules.page import examples

FAMILIES = {
    Family.RACE: "Races between streams",
    Family.LIFETIME: "Memory reused too early",
    Family.HOST: "The host and copies in flight",
    Family.EVENT: "Events",
    Family.DEVICE: "Multiple devices",
    Family.COLLECTIVE: "Collectives",
    Family.TIMING: "Timing",
    Family.PERFORMANCE: "Performance",
    Family.GRAPH: "CUDA graphs",
}


def navigation():
    """Return the navigation entries of all rules, grouped by family."""
    groups = {title: [] for title in FAMILIES.values()}
    for rule in CATALOGUE:
        groups[FAMILIES[rule.family]].append({f"{rule.code} {rule.name}": f"rules/{rule.code}.md"})
    return ["rules/index.md", *({title: entries} for title, entries in groups.items())]


def pages():
    """Return the text of each page, by path."""
    return {f"rules/{rule.code}.md": _page(rule) for rule in CATALOGUE} | {"rules/index.md": _list()}


def _list():
    """Return the list of all rules, by family."""
    lines = [
        "---\nhide: [toc]\n---",
        "# Rules",
        "",
        f"{len(CATALOGUE)} rules for `syncheck run` and `syncheck lint`. Most of them are found by both.",
        "",
    ]
    for family, title in FAMILIES.items():
        lines += [f"## {title}", "", "| rule | level | found by | |", "| --- | --- | --- | --- |"]
        for rule in CATALOGUE:
            if rule.family is family:
                found_by = ", ".join(sorted(sources(rule))) or "nothing yet"
                link = f"[{rule.code}]({rule.code}.md) {rule.name}"
                lines.append(f"| {link} | {_badge(rule.severity)} | {found_by} | {rule.summary} |")
        lines.append("")
    return "\n".join(lines)


def _page(rule):
    """Return a rule's page: the output of `syncheck explain`, with its examples side by side."""
    text, *_ = rule_page(rule.code).partition("\n\n## Bad example")
    title, _, rest = text.partition("\n\n")
    _, _, rest = rest.partition("\n\n")
    found_by = " and ".join(f"<code>syncheck {half}</code>" for half in sorted(sources(rule)))
    badges = f'<p class="badges">{_badge(rule.severity)} found by {found_by}</p>'
    return f"---\nhide: [toc]\n---\n{title}\n\n{badges}\n\n{rest}\n\n{side_by_side(examples(rule))}"


def _badge(severity):
    return f'<span class="level {severity}">{severity}</span>'


def side_by_side(pair):
    """Return two examples as blocks side by side, with their differing lines marked."""
    if not pair:
        return ""
    codes = [_without_docstring(example.source) for example in pair]
    changed = _changed_lines(*codes) if len(pair) == 2 else ([], [])
    blocks = [_block(example, code, lines) for example, code, lines in zip(pair, codes, changed, strict=False)]
    return "## Examples\n\n" + '<div class="examples" markdown="1">\n\n' + "\n\n".join(blocks) + "\n\n</div>\n"


def _block(example, code, lines):
    said = escape(ast.get_docstring(ast.parse(example.source)) or "", quote=False).replace("\n", " ")
    marked = f' hl_lines="{" ".join(map(str, lines))}"' if lines else ""
    return (
        f'<div class="example {example.kind}" markdown="1">\n\n**{example.kind.title()}**: {said}\n\n'
        f"```{{ .python{marked} }}\n{code}```\n\n</div>"
    )


def _without_docstring(source):
    """Return a program without its docstring, which is shown above the block."""
    first = ast.parse(source).body[0]
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return source
    return "\n".join(source.split("\n")[first.end_lineno :]).lstrip("\n")


def _changed_lines(bad, good):
    """Return the numbers of the lines that are only in the first program, and only in the second."""
    matcher = difflib.SequenceMatcher(None, bad.splitlines(), good.splitlines(), autojunk=False)
    changed = [block for block in matcher.get_opcodes() if block[0] != "equal"]
    return (
        [line + 1 for _, start, stop, _, _ in changed for line in range(start, stop)],
        [line + 1 for _, _, _, start, stop in changed for line in range(start, stop)],
    )
