"""What came of linting one file."""

from dataclasses import dataclass, field

from syncheck.findings import Finding
from syncheck.system.files import Stamp


@dataclass(slots=True)
class Result:
    """What came of one file.

    Attributes:
        findings: those that no comment silences, of all rules.
        unused: comments that silence nothing: (line, the comment).
        problem: why it could not be linted; "" if it could.
        asked: the other files that were looked for, each with its stamp: the findings depend on them.
        is_checked: its text has something to check.
    """

    findings: tuple[Finding, ...] = ()
    unused: tuple[tuple[int, str], ...] = ()
    problem: str = ""
    asked: dict[str, Stamp] = field(default_factory=dict)
    is_checked: bool = field(default=True, compare=False)
