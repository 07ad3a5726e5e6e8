"""What came of linting one file."""

from dataclasses import dataclass

from syncheck.findings import Finding


@dataclass(slots=True)
class Result:
    """What came of one file.

    Attributes:
        findings: those that no comment silences, of all rules.
        unused: comments that silence nothing: (line, the comment).
        problem: why it could not be linted; "" if it could.
    """

    findings: tuple[Finding, ...] = ()
    unused: tuple[tuple[int, str], ...] = ()
    problem: str = ""
