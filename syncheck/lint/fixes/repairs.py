"""Repairs that are one line: each is made, and kept only if the file is then better by the linter's own judgement."""

import ast
import re
from collections import Counter
from dataclasses import dataclass, field

from syncheck.findings import Finding
from syncheck.lint import files
from syncheck.lint.engine import lint_source
from syncheck.lint.interp.sites import span

SAFE = frozenset("SYN101 SYN102 SYN103 SYN104 SYN201 SYN402 SYN403 SYN903".split())
"""Rules whose repair adds an order and changes nothing else."""
UNSAFE = frozenset("SYN301 SYN302 SYN404 SYN502 SYN603 SYN701".split())
"""Rules whose repair makes the host wait, or guesses where."""
_INSERTED = re.compile(
    r"^(?:add|call) `(?P<code>[^`]+)`(?: \(or [^)]*\(\)\))?.*? (?P<where>before|after) line (?P<line>\d+)"
)
_INSTEAD = re.compile(r"^call `(?P<code>torch\.cuda\.synchronize\(\w+\))` at line (?P<line>\d+)")
_MOST_EDITS = 100


@dataclass(slots=True)
class Fixed:
    """A file's text after its repair.

    Attributes:
        repaired: the findings that are gone.
    """

    source: str
    repaired: list[Finding] = field(default_factory=list)


def fix(path: str, source: str, *, unsafe: bool, codes: frozenset[str]) -> Fixed:
    """Repair what can be repaired in a Python file.

    Args:
        path: for the findings.
        source: the text, with its own line ends.
        unsafe: whether repairs are wanted, too, that make the host wait.
        codes: the rules to repair.
    """
    wanted = codes & (SAFE | UNSAFE if unsafe else SAFE)
    fixed = Fixed(source)
    tried: set[tuple[str, str, str]] = set()
    findings = lint_source(path, files.Text(source)).findings
    for _ in range(_MOST_EDITS):
        finding = next((f for f in findings if f.rule.code in wanted and _key(f) not in tried), None)
        if finding is None:
            break
        tried.add(_key(finding))
        better = repaired(path, fixed.source, findings, finding)
        if better is not None:
            fixed.source, findings = better
            fixed.repaired.append(finding)
    return fixed


def repaired(
    path: str, source: str, findings: tuple[Finding, ...], finding: Finding
) -> tuple[str, tuple[Finding, ...]] | None:
    """Return a file's text with one of its findings repaired, and what is found then; None if that is not better."""
    edited = _edited(source, finding)
    if edited is None:
        return None
    result = lint_source(path, files.Text(edited))
    before, after = Counter(map(_key, findings)), Counter(map(_key, result.findings))
    if result.problem or after - before or after.total() >= before.total():
        return None
    return edited, result.findings


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.rule.code, finding.fingerprint, finding.message


def _edited(source: str, finding: Finding) -> str | None:
    """Return the text with a finding's repair; None if there is none that can be made."""
    tree = ast.parse(source)
    if finding.rule.code == "SYN402":
        return _other_method(source, tree, finding.place.frame.line, finding.place.frame.column)
    if finding.rule.code == "SYN403":
        return _with_timing(source, tree, finding)
    if finding.rule.code == "SYN603":
        return _waited(source, tree, finding.place.frame.line)
    instead = _INSTEAD.match(finding.help)
    if instead is not None:
        return _replaced(source, tree, int(instead["line"]), "torch.cuda.synchronize()", instead["code"])
    inserted = _INSERTED.match(finding.help)
    if inserted is None or "_of_line_" in inserted["code"]:
        return None
    return _with_line(source, tree, int(inserted["line"]), inserted["code"], is_after=inserted["where"] == "after")


def _statement(tree: ast.Module, line: int) -> ast.stmt | None:
    """Return the innermost statement that a line belongs to."""
    found: ast.stmt | None = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if found is None or node.lineno >= found.lineno:
            found = node
    return found


def _with_line(source: str, tree: ast.Module, line: int, code: str, *, is_after: bool) -> str | None:
    statement = _statement(tree, line)
    if statement is None or isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return None
    lines = files.lines_of(source)
    number = (statement.end_lineno or statement.lineno) if is_after else statement.lineno - 1
    first = lines[statement.lineno - 1]
    indent = first[: len(first) - len(first.lstrip())]
    if len(indent.encode()) != statement.col_offset:
        return None  # it does not begin its line
    end = "\r\n" if first.endswith("\r\n") else "\n"
    if is_after and not lines[number - 1].endswith(("\n", "\r")):
        lines[number - 1] += end
    lines.insert(number, f"{indent}{code}{end}")
    return "".join(lines)


def _calls_at(tree: ast.Module, line: int, column: int = 0) -> list[ast.Call]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and span(node)[0] == line]
    exact = [node for node in found if span(node)[1] + 1 == column]
    return exact or found


def _other_method(source: str, tree: ast.Module, line: int, column: int) -> str | None:
    """Make `.wait(...)` a `.synchronize()`."""
    for call in _calls_at(tree, line, column):
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "wait"
            and call.func.end_lineno == call.end_lineno
        ):
            end = call.func.end_col_offset or 0
            return _cut(
                source, call.func.end_lineno or line, end - len("wait"), call.end_col_offset or end, "synchronize()"
            )
    return None


def _with_timing(source: str, tree: ast.Module, finding: Finding) -> str | None:
    """Give the events `enable_timing=True` where they are made."""
    edited = source
    calls = {call for place in finding.related for call in _calls_at(tree, place.frame.line, place.frame.column)}
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset), reverse=True):
        if not ast.unparse(call.func).endswith("Event") or call.lineno != call.end_lineno or call.args:
            continue
        others = "".join(f", {ast.unparse(keyword)}" for keyword in call.keywords if keyword.arg != "enable_timing")
        start, end = call.func.end_col_offset or 0, call.end_col_offset or 0
        edited = _cut(edited, call.lineno, start, end, f"(enable_timing=True{others})")
    return None if edited == source else edited


def _waited(source: str, tree: ast.Module, line: int) -> str | None:
    """Wait for a collective whose handle is thrown away."""
    statement = _statement(tree, line)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        end_line, end = statement.value.end_lineno or line, statement.value.end_col_offset or 0
        return _cut(source, end_line, end, end, ".wait()")
    return None


def _replaced(source: str, tree: ast.Module, line: int, old: str, new: str) -> str | None:
    for call in _calls_at(tree, line):
        if ast.unparse(call) == old and call.lineno == call.end_lineno:
            return _cut(source, line, call.col_offset, call.end_col_offset or 0, new)
    return None


def _cut(source: str, line: int, start: int, stop: int, new: str) -> str:
    """Return the text with the bytes [start, stop) of a line replaced."""
    lines = files.lines_of(source)
    data = lines[line - 1].encode()
    lines[line - 1] = (data[:start] + new.encode() + data[stop:]).decode()
    return "".join(lines)


def with_ignores(path: str, source: str, codes: frozenset[str]) -> str:
    """Return the text with a comment at each finding's line that silences it."""
    by_line: dict[int, set[str]] = {}
    for finding in lint_source(path, files.Text(source)).findings:
        if finding.rule.code in codes:
            frame = finding.place.frame
            by_line.setdefault(max(frame.line, frame.end_line), set()).add(finding.rule.code)
    for line, found in by_line.items():
        candidate = with_ignore(source, line, found)
        if not lint_source(path, files.Text(candidate)).problem:
            source = candidate
    return source


def with_ignore(source: str, line: int, codes: set[str]) -> str:
    """Return the text with a comment at a line that silences some rules."""
    lines = files.lines_of(source)
    text = lines[line - 1]
    body = text.rstrip("\r\n")
    lines[line - 1] = f"{body}  # syncheck: ignore[{', '.join(sorted(codes))}]{text[len(body) :]}"
    return "".join(lines)
