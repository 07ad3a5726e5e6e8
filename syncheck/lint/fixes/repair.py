"""Repairs files: all fixes of a file at once, kept if the linter then finds less and nothing new."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from syncheck.findings import Applicability, Finding
from syncheck.lint import files
from syncheck.lint.engine import lint_source
from syncheck.lint.fixes import codemods

_MOST_ROUNDS = 64
Key = tuple[str, str, str]
Found = tuple[Finding, ...]


@dataclass(slots=True)
class Repaired:
    """A file's text after its repair.

    Attributes:
        findings: those that are gone, also those that went with another one.
        given_up: those that are left although their fix was wanted: it cures nothing.
        hopeless: the same, as they were before anything was changed.
    """

    source: str
    findings: list[Finding] = field(default_factory=list)
    given_up: list[Finding] = field(default_factory=list)
    hopeless: list[Finding] = field(default_factory=list)


def repair(path: str, source: str, *, unsafe: bool, codes: frozenset[str], known: Found | None = None) -> Repaired:
    """Repair what can be repaired in a Python file.

    Args:
        path: for the findings.
        source: the text, with its own line ends.
        unsafe: whether fixes are wanted, too, that make the host wait or guess where.
        codes: the rules to repair.
        known: what is found in the text, if it was linted.
    """
    allowed = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}

    def is_wanted(finding: Finding) -> bool:
        return finding.rule.code in codes and finding.fix is not None and finding.fix.applicability in allowed

    return _Repair(path, source, is_wanted, known).run()


def repaired(path: str, source: str, finding: Finding) -> str | None:
    """Return a file's text with one of its findings repaired; None if that makes it no better."""
    repair = _Repair(path, source, lambda other: key_of(other) == key_of(finding))
    done = repair.run()
    return done.source if done.findings else None


class _Repair:
    """One file.

    Args:
        path: for the findings.
        source: the text.
        is_wanted: whether a finding is to be repaired.
        known: what is found in the text, if it was linted.
    """

    def __init__(
        self, path: str, source: str, is_wanted: Callable[[Finding], bool], known: Found | None = None
    ) -> None:
        self._path = path
        self._is_wanted = is_wanted
        self._given_up: set[Key] = set()
        self._repaired = Repaired(source)
        self._findings = self._original = lint_source(path, files.Text(source)).findings if known is None else known

    def run(self) -> Repaired:
        """Repair the file."""
        most = 0  # findings to repair at once; 0: all
        for _ in range(_MOST_ROUNDS):
            wanted = [f for f in self._findings if self._is_wanted(f) and key_of(f) not in self._given_up]
            if not wanted:
                break
            tried = wanted[: most or len(wanted)]
            if self._try(tried):
                most = 0
            elif len(tried) == 1:
                self._given_up.add(key_of(tried[0]))
                most = 0
            else:
                most = len(tried) // 2
        self._repaired.given_up = [finding for finding in self._findings if key_of(finding) in self._given_up]
        self._repaired.hopeless = [finding for finding in self._original if key_of(finding) in self._given_up]
        return self._repaired

    def _try(self, findings: list[Finding]) -> bool:
        """Make the fixes of some findings; return whether that cured all of them and brought nothing new."""
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
    """Return as many findings of each key as are counted."""
    left, taken = keys.copy(), list[Finding]()
    for finding in findings:
        if left[key_of(finding)] > 0:
            left[key_of(finding)] -= 1
            taken.append(finding)
    return taken


def key_of(finding: Finding) -> Key:
    """Return what stays the same of a finding when lines move."""
    return finding.rule.code, finding.fingerprint, finding.message


def with_ignores(path: str, source: str, codes: frozenset[str], *, is_strict: bool = False) -> tuple[str, int]:
    """Return the text with a comment at each finding's statement that silences it, and how many these are."""
    by_line: dict[int, set[str]] = {}
    for finding in lint_source(path, files.Text(source), is_strict=is_strict).findings:
        if finding.rule.code in codes:
            by_line.setdefault(finding.place.frame.line, set()).add(finding.rule.code)
    return (with_ignore(source, by_line), len(by_line)) if by_line else (source, 0)


def with_ignore(source: str, codes: dict[int, set[str]]) -> str:
    """Return the text with comments at the statements of some lines that silence rules."""
    comments = {line: f"# syncheck: ignore[{', '.join(sorted(found))}]" for line, found in codes.items()}
    return codemods.with_comments(source, comments)
