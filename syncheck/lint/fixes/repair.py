"""Fixes files: applies all fixes of a file at once, and keeps them if they remove findings and add none."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from syncheck.findings import Applicability, Finding
from syncheck.lint import files
from syncheck.lint.engine import lint_source
from syncheck.lint.fixes import codemods

_MAX_ROUNDS = 64
_FEWEST_ROUNDS = 8
_MOST_TEXT = 1_000_000
"""Number of characters to lint again after `_FEWEST_ROUNDS`. Fixes of the findings that are left then are not tried."""
Key = tuple[str, str, str]
Found = tuple[Finding, ...]


@dataclass(slots=True)
class Repaired:
    """Result of fixing a file.

    Attributes:
        findings: the findings that are gone, including those removed by the fix of another finding.
        unresolved: the findings that remain although their fix was requested, because it does not help.
        unfixable: the same findings as they were before any change.
    """

    source: str
    findings: list[Finding] = field(default_factory=list)
    unresolved: list[Finding] = field(default_factory=list)
    unfixable: list[Finding] = field(default_factory=list)


def repair(path: str, source: str, *, unsafe: bool, codes: frozenset[str], known: Found | None = None) -> Repaired:
    """Apply the fixes of a Python file.

    Args:
        path: the path for the findings.
        source: the text, with its original line endings.
        unsafe: also apply fixes that make the host wait, or that guess a position.
        codes: the rules to fix.
        known: the findings of the text, if it has been linted.
    """
    allowed = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}

    def is_wanted(finding: Finding) -> bool:
        return finding.rule.code in codes and finding.fix is not None and finding.fix.applicability in allowed

    return _Repair(path, source, is_wanted, known).run()


def repaired(path: str, source: str, finding: Finding) -> str | None:
    """Return a file's text with the fix of one finding applied; None if that does not help."""
    repair = _Repair(path, source, lambda other: key_of(other) == key_of(finding))
    done = repair.run()
    return done.source if done.findings else None


class _Repair:
    """The fix of one file.

    Args:
        path: the path for the findings.
        source: the text.
        is_wanted: returns whether a finding is to be fixed.
        known: the findings of the text, if it has been linted.
    """

    def __init__(
        self, path: str, source: str, is_wanted: Callable[[Finding], bool], known: Found | None = None
    ) -> None:
        self._path = path
        self._is_wanted = is_wanted
        self._unresolved: set[Key] = set()
        self._repaired = Repaired(source)
        self._findings = self._original = lint_source(path, files.Text(source)).findings if known is None else known

    def run(self) -> Repaired:
        """Fix the file."""
        most = 0  # maximum number of findings to fix at once; 0 for no limit
        affordable = _MOST_TEXT // (len(self._repaired.source) + 1)
        for _ in range(max(_FEWEST_ROUNDS, min(affordable, _MAX_ROUNDS))):
            wanted = [f for f in self._findings if self._is_wanted(f) and key_of(f) not in self._unresolved]
            if not wanted:
                break
            tried = wanted[: most or len(wanted)]
            if self._try(tried):
                most = 0
            elif len(tried) == 1:
                self._unresolved.add(key_of(tried[0]))
                most = 0
            else:
                most = len(tried) // 2
        self._repaired.unresolved = [finding for finding in self._findings if key_of(finding) in self._unresolved]
        self._repaired.unfixable = [finding for finding in self._original if key_of(finding) in self._unresolved]
        return self._repaired

    def _try(self, findings: list[Finding]) -> bool:
        """Apply the fixes of some findings; return whether that removed all of them and added none."""
        edits = [edit for finding in findings if finding.fix is not None for edit in finding.fix.edits]
        changed, done = codemods.apply(self._repaired.source, edits)
        if len(done) < len(set(edits)):
            return False
        result = lint_source(self._path, files.Text(changed))
        before, after = Counter(map(key_of, self._findings)), Counter(map(key_of, result.findings))
        cured = before - after
        if result.problem or after - before or any(key_of(finding) not in cured for finding in findings):
            return False
        self._repaired.findings += _taken(self._findings, cured)
        self._repaired.source, self._findings = changed, result.findings
        return True


def _taken(findings: Found, keys: Counter[Key]) -> list[Finding]:
    """Return, for each key, the counted number of findings."""
    left, taken = keys.copy(), list[Finding]()
    for finding in findings:
        if left[key_of(finding)] > 0:
            left[key_of(finding)] -= 1
            taken.append(finding)
    return taken


def key_of(finding: Finding) -> Key:
    """Return the properties of a finding that stay the same when lines move."""
    return finding.rule.code, finding.fingerprint, finding.message


def with_ignores(path: str, source: str, codes: frozenset[str], *, is_strict: bool = False) -> tuple[str, int]:
    """Return the text with a suppression comment at the statement of each finding, and the number of comments."""
    by_line: dict[int, set[str]] = {}
    for finding in lint_source(path, files.Text(source), is_strict=is_strict).findings:
        if finding.rule.code in codes:
            by_line.setdefault(finding.location.frame.line, set()).add(finding.rule.code)
    return with_ignore(source, by_line) if by_line else (source, 0)


def with_ignore(source: str, codes: dict[int, set[str]]) -> tuple[str, int]:
    """Return the text with suppression comments at the statements of some lines, and the number of comments."""
    return codemods.with_comments(source, codes, lambda found: f"# syncheck: ignore[{', '.join(found)}]")
