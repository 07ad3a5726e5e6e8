"""Result of linting one file."""

from dataclasses import dataclass, field

from syncheck.findings import Finding
from syncheck.system.files import Stamp


@dataclass(slots=True)
class Result:
    """Result of linting one file.

    Attributes:
        findings: the findings of all rules that no comment suppresses.
        unused: the comments that suppress nothing, as (line, comment).
        problem: why the file could not be linted; "" if it could.
        asked: the other files that were looked up -> their stamps. The findings depend on these files.
        is_checked: whether the text has anything to check.
        is_reproducible: whether the same file gives the same result again; not after a failure of the moment.
        left_out: a note about code that was not followed; "" if there is none. See `syncheck.lint.budget`.
    """

    findings: tuple[Finding, ...] = ()
    unused: tuple[tuple[int, str], ...] = ()
    problem: str = ""
    asked: dict[str, Stamp] = field(default_factory=dict)
    is_checked: bool = field(default=True, compare=False)
    left_out: str = ""
    is_reproducible: bool = True
