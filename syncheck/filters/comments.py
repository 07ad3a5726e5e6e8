"""Comments that suppress findings: `# syncheck: ignore[SYN101] reason`, and `ignore-file` for a whole file.

`ignore` applies to findings of runs and of the linter, `ignore-run` and `ignore-lint` to one of them.
"""

import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, field

from syncheck.errors import ConfigError
from syncheck.findings import Finding, Location
from syncheck.rules import catalogue
from syncheck.source.text import source_line, source_text

_COMMENT = re.compile(
    r"#\s*syncheck:\s*(?P<kind>ignore(?:-file|-run|-lint)?)\b(?!-)\s*(?P<list>\[[^\]]*\]?)?(?P<code>\s*SYN\d+)?",
    re.IGNORECASE,
)
_SIMILAR = re.compile(r"#\s*(?P<text>syncheck\s*:?\s*(?:ignor\w*|noqa|disable|suppress|skip)[\w-]*)", re.IGNORECASE)
"""A comment that is meant to suppress findings, whether or not it is spelled correctly."""
_MARK = "syncheck"
Statements = Mapping[Finding, tuple[int, int]]
"""The first and last line of the statement that contains each finding."""


@dataclass(slots=True)
class Suppression:
    """One suppression comment.

    Attributes:
        line: its line, from 1.
        text: its text, without the reason.
        codes: codes of the rules that it suppresses.
        is_file: whether it applies to the whole file.
        source: whose findings it suppresses, "run" or "lint"; "" for both.
        problem: why it is invalid; "" if it is valid.
        names: the names in its brackets, with the codes that each stands for.
        used: codes of the findings that it has suppressed.
    """

    line: int
    text: str
    codes: frozenset[str]
    is_file: bool = False
    source: str = ""
    problem: str = ""
    names: tuple[tuple[str, frozenset[str]], ...] = ()
    used: set[str] = field(default_factory=set)

    @property
    def is_used(self) -> bool:
        """Return whether it has suppressed a finding."""
        return bool(self.used)

    def unused_names(self, codes: frozenset[str] | set[str]) -> list[str]:
        """Return the unused names of a comment that is otherwise used, among those that stand for one of `codes`."""
        return [name for name, group in self.names if self.used and group & codes and not group & self.used]

    def unused_message(self, name: str) -> str:
        """Return the message for an unused name in the comment."""
        return f"unused `{name}` in `{self.text}`"

    @property
    def is_for_run(self) -> bool:
        """Return whether it can suppress findings of a run, which has no project rules."""
        is_projects = bool(self.codes) and all(map(catalogue.is_project_code, self.codes))
        return self.source != "lint" and not is_projects

    def covers(self, finding: Finding, statement: tuple[int, int]) -> bool:
        """Return whether it suppresses a finding.

        Args:
            finding: the finding.
            statement: the first and last line of its statement, or its own line if these are unknown.
        """
        frame = finding.location.frame
        if self.source not in {"", finding.source} or finding.rule.code not in self.codes:
            return False
        first, last = min(frame.line, statement[0]), max(frame.line, frame.end_line, statement[1])
        return self.is_file or first <= self.line <= last

    def __str__(self) -> str:
        if self.problem:
            return f"`{self.text}` has no effect{_BECAUSE}{self.problem}"
        return f"unused `{self.text}`"


_BECAUSE = ": "


def is_malformed(message: str) -> bool:
    """Return whether a message about an unused comment says that it is not a valid one."""
    return f"` has no effect{_BECAUSE}" in message


def read(source: str) -> list[Suppression]:
    """Return the suppressions in a source text, up to the first token that is not valid Python."""
    if _MARK not in source.lower():
        return []
    found: list[Suppression] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                found += _parsed(token.string, token.start[0])
    except (tokenize.TokenError, SyntaxError):
        return found
    return found


def _parsed(comment: str, line: int) -> list[Suppression]:
    found = [_suppression(match, line) for match in _COMMENT.finditer(comment)]
    match = _SIMILAR.search(comment) if not found else None
    if match is None:
        return found
    problem = "write `# syncheck: ignore[...]`, `ignore-run`, `ignore-lint` or `ignore-file`"
    return [Suppression(line, match["text"], frozenset(), problem=problem)]


def _suppression(match: re.Match[str], line: int) -> Suppression:
    kind, listed = match["kind"].lower(), match["list"]
    source = kind.partition("-")[2] if kind in {"ignore-run", "ignore-lint"} else ""
    problem, codes = "", frozenset[str]()
    if listed is not None and not listed.endswith("]"):
        problem = "its bracket is not closed"
    elif listed is None and match["code"]:
        problem = f"write `{kind}[{match['code'].strip()}]`"
    names = ["ALL"] if listed is None else [name.strip() for name in listed.strip("[]").split(",") if name.strip()]
    if not names:
        problem = "name a rule in its brackets"
    by_name: tuple[tuple[str, frozenset[str]], ...] = ()
    try:
        by_name = tuple((name, _codes_of(name)) for name in names)
        codes = frozenset[str]().union(*(codes_of_name for _, codes_of_name in by_name))
    except ConfigError as error:
        problem = str(error)
    text = f"syncheck: {kind}" + (f"[{', '.join(names)}]" if listed is not None else "")
    codes, by_name = (frozenset(), ()) if problem else (codes, by_name)
    return Suppression(line, text, codes, kind == "ignore-file", source, problem, by_name)


def _codes_of(name: str) -> frozenset[str]:
    return frozenset({name}) if catalogue.is_project_code(name) else catalogue.codes_of([name])


def apply(
    findings: tuple[Finding, ...], suppressions: list[Suppression], statements: Statements | None = None
) -> tuple[Finding, ...]:
    """Return the findings that no comment suppresses, and mark the comments that suppress others as used."""
    remaining: list[Finding] = []
    for finding in findings:
        line = finding.location.frame.line
        lines = (statements or {}).get(finding, (line, line))
        covering = [suppression for suppression in suppressions if suppression.covers(finding, lines)]
        for suppression in covering:
            suppression.used.add(finding.rule.code)
        if not covering:
            remaining.append(finding)
    return tuple(remaining)


class Comments:
    """The suppressions in the files of a run's findings, read on demand."""

    def __init__(self) -> None:
        self._files: dict[str, list[Suppression]] = {}

    def suppresses(self, finding: Finding) -> bool:
        """Return whether a comment suppresses a finding, and mark that comment as used."""
        return not apply((finding,), self._suppressions_for(finding.location))

    def unused(self, path: str, lines: set[int]) -> list[Suppression]:
        """Return the unused comments for runs on the given lines of a file or for the whole file."""
        comments = self.in_file(path)
        return [c for c in comments if not c.is_used and c.is_for_run and (c.is_file or c.line in lines)]

    def in_file(self, path: str) -> list[Suppression]:
        """Return the suppressions in a file."""
        if path not in self._files:
            self._files[path] = read(source_text(path))
        return self._files[path]

    def _suppressions_for(self, location: Location) -> list[Suppression]:
        """Return the suppressions that may apply to a location: of its file, or of the source stored in a trace."""
        frame = location.frame
        if source_line(frame.path, frame.line) == frame.source:
            return self.in_file(frame.path)
        lines = dict(location.excerpt) | {frame.line: frame.source}
        return [comment for line, text in lines.items() for comment in _parsed(text, line)]
