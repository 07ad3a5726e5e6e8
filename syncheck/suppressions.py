"""Comments that silence findings: `# syncheck: ignore[SYN101] reason`, and `ignore-file` for a whole file.

`ignore` is for what a run and the linter find, `ignore-run` and `ignore-lint` for one of them.
"""

import ast
import io
import linecache
import re
import tokenize
from dataclasses import dataclass

from syncheck.findings import Finding, Place
from syncheck.rules.model import Rule

_COMMENT = re.compile(
    r"#\s*syncheck:\s*(?P<kind>ignore(?:-file|-run|-lint)?)\b(?!-)(?:\[(?P<codes>[^\]]*)\])?(?P<reason>[^#]*)",
    re.IGNORECASE,
)
_MARK = "syncheck:"


@dataclass(slots=True)
class Suppression:
    """One comment.

    Attributes:
        line: where it stands, from 1.
        codes: codes, prefixes or names that it silences, in upper case; empty for all.
        is_file: it is for the whole file.
        half: the half of syncheck that it is for, "run" or "lint"; "" for both.
        is_used: it has silenced something.
        end: the last line of a `with syncheck.ignore(...)` block; 0 for a comment.
    """

    line: int
    codes: tuple[str, ...]
    is_file: bool = False
    half: str = ""
    is_used: bool = False
    end: int = 0

    def covers(self, finding: Finding) -> bool:
        """Tell whether it silences a finding."""
        frame = finding.place.frame
        if self.half not in {"", finding.half}:
            return False
        if not self.is_file and not self._touches(frame.line, max(frame.line, frame.end_line)):
            return False
        return self.names(finding.rule)

    def _touches(self, first: int, last: int) -> bool:
        return self.line <= first <= self.end if self.end else first <= self.line <= last

    def names(self, rule: Rule) -> bool:
        """Tell whether it is about a rule."""
        return not self.codes or any(rule.code.startswith(code) or rule.name.upper() == code for code in self.codes)

    def __str__(self) -> str:
        kind = "ignore-file" if self.is_file else f"ignore-{self.half}" if self.half else "ignore"
        return f"syncheck: {kind}" + (f"[{', '.join(self.codes)}]" if self.codes else "")


def read(source: str) -> list[Suppression]:
    """Return the suppressions in a file's text; none where it cannot be read as Python."""
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
    return [
        Suppression(
            line,
            tuple(code.strip().upper() for code in (match["codes"] or "").split(",") if code.strip()),
            (kind := match["kind"].lower()) == "ignore-file",
            kind.partition("-")[2] if kind in {"ignore-run", "ignore-lint"} else "",
        )
        for match in _COMMENT.finditer(comment)
    ]


def blocks(source: str) -> list[Suppression]:
    """Return the `with syncheck.ignore("SYN201"):` blocks in a text that is Python, for the linter."""
    if "ignore(" not in source or "syncheck" not in source:
        return []
    return [
        Suppression(node.lineno, codes, end=node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
        if (codes := _ignored(item.context_expr))
    ]


def _ignored(node: ast.expr) -> tuple[str, ...]:
    """Return the rules of a call of `syncheck.ignore`, in upper case; nothing for any other expression."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in {"syncheck.ignore", "ignore"}:
        return ()
    return tuple(str(argument.value).upper() for argument in node.args if isinstance(argument, ast.Constant))


def apply(findings: tuple[Finding, ...], suppressions: list[Suppression]) -> tuple[Finding, ...]:
    """Return the findings that no comment silences; mark the comments that do."""
    kept: list[Finding] = []
    for finding in findings:
        covering = [suppression for suppression in suppressions if suppression.covers(finding)]
        for suppression in covering:
            suppression.is_used = True
        if not covering:
            kept.append(finding)
    return tuple(kept)


class Comments:
    """The suppressions in the files of a run's findings, read when they are asked for."""

    def __init__(self) -> None:
        self._files: dict[str, list[Suppression]] = {}

    def silence(self, finding: Finding) -> bool:
        """Tell whether a comment silences a finding, and mark it as used."""
        return not apply((finding,), self._near(finding.place))

    def unused(self, path: str, lines: set[int]) -> list[Suppression]:
        """Return the comments for a run, in some lines of a file or for the whole, that have silenced nothing."""
        comments = self.in_file(path)
        return [c for c in comments if not c.is_used and c.half != "lint" and (c.is_file or c.line in lines)]

    def in_file(self, path: str) -> list[Suppression]:
        """Return the suppressions in a file."""
        if path not in self._files:
            self._files[path] = read("".join(linecache.getlines(path)))
        return self._files[path]

    def _near(self, place: Place) -> list[Suppression]:
        """Return those that can be about a place: of its file, or of what a trace has kept of it."""
        frame = place.frame
        if linecache.getline(frame.path, frame.line).rstrip("\r\n") == frame.source:
            return self.in_file(frame.path)
        lines = dict(place.excerpt) | {frame.line: frame.source}
        return [comment for line, text in lines.items() for comment in _parsed(text, line)]
