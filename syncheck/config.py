"""What the user chose for a run: one frozen value, one field a setting."""

from dataclasses import dataclass
from pathlib import Path

from syncheck.rules.model import Severity


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of `run` and `replay`.

    Attributes:
        backend: "auto", "cuda" or "sim".
        devices: number of simulated GPUs.
        select: rule codes, prefixes or names to report; empty for all.
        ignore: rule codes, prefixes or names not to report; wins over `select`.
        fail_on: the mildest level that makes the exit status 1.
        fail_fast: end the program at the first finding at `fail_on` or worse.
        max_findings: findings to show, 0 for all.
        output_format: "text", "concise" or "json".
        output: file for the report; None for standard error (text, concise) or standard output (json).
        stacks: show whole call stacks.
        trace: file to record the run in.
        steps: check only from the end of the first number of optimizer steps to that of the second, None: to the end
            of the program; None checks all of it.
    """

    backend: str = "auto"
    devices: int = 2
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity = Severity.WARNING
    fail_fast: bool = False
    max_findings: int = 0
    output_format: str = "text"
    output: Path | None = None
    stacks: bool = False
    trace: Path | None = None
    steps: tuple[int, int | None] | None = None

    def selected(self) -> frozenset[str]:
        """Return the codes of the rules to report.

        Raises:
            ConfigError: a name that no rule has.
        """
        chosen = _codes(self.select) or _codes(("ALL",))
        return chosen - _codes(self.ignore)


def _codes(names: tuple[str, ...]) -> frozenset[str]:
    from syncheck.rules import catalogue  # noqa: PLC0415  36 modules that `--help` does not need

    return frozenset(rule.code for name in names for rule in catalogue.matching(name))
