"""What the user chose: one frozen value, one field a setting."""

import os
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from syncheck.rules.model import Severity


@dataclass(frozen=True, slots=True)
class Options:
    """Every setting of every command; each has its own use for some of them.

    Attributes:
        select: rule codes, prefixes or names to report; empty for all.
        extend_select: those to report as well.
        ignore: those not to report; wins over both.
        per_file_ignores: (pattern, those not to report in files that match it); patterns are relative to `root`.
        third_party: findings whose places all lie in installed packages: "short", "full" or "off".
        fail_on: the mildest level that makes the exit status 1.
        max_findings: findings to show, 0 for all.
        output_format: "text", "concise", "json", "sarif", "github", "gitlab" or "junit".
        output: file for the report; None for a standard stream.
        stacks: show whole call stacks.
        baseline: file of the findings that are known; None for none.
        write_baseline: make the findings of now the known ones.
        backend: "auto", "cuda" or "sim".
        devices: number of simulated GPUs.
        fail_fast: end the program at the first finding at `fail_on` or worse.
        trace: file to record the run in.
        steps: check only from the end of the first number of optimizer steps to that of the second, None: to the end
            of the program; None checks all of it.
        ranks_dir: where the ranks of a job write what they tell each other; None: in `.syncheck`, removed at the end.
        hang_timeout: seconds without progress after which a job whose ranks wait for each other is ended; 0: never.
        nproc: number of ranks to start; 0 runs the program in this process.
        exclude: patterns of files and folders not to lint, as in a .gitignore.
        respect_gitignore: do not lint what git ignores.
        root: the folder of the pyproject.toml that holds the settings; "" if there is none.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    third_party: str = "short"
    fail_on: Severity = Severity.WARNING
    max_findings: int = 0
    output_format: str = "text"
    output: Path | None = None
    stacks: bool = False
    baseline: Path | None = None
    write_baseline: bool = False
    backend: str = "auto"
    devices: int = 2
    fail_fast: bool = False
    trace: Path | None = None
    steps: tuple[int, int | None] | None = None
    ranks_dir: Path | None = None
    hang_timeout: float = 0.0
    nproc: int = 0
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    root: str = ""

    def selected(self) -> frozenset[str]:
        """Return the codes of the rules to report.

        Raises:
            ConfigError: a name that no rule has.
        """
        return _selected(self, ())

    def codes_for(self, path: str) -> frozenset[str]:
        """Return the codes of the rules to report in a file.

        Raises:
            ConfigError: a name that no rule has.
        """
        return _selected(self, tuple(names for pattern, names in self.per_file_ignores if self._matches(path, pattern)))

    def _matches(self, path: str, pattern: str) -> bool:
        relative = os.path.relpath(path, self.root or ".").replace(os.sep, "/")
        return fnmatch(relative, pattern) or fnmatch(os.path.basename(path), pattern)


@lru_cache(maxsize=256)
def _selected(options: Options, more_ignored: tuple[tuple[str, ...], ...]) -> frozenset[str]:
    chosen = _codes(options.select) or _codes(("ALL",))
    ignored = _codes(options.ignore).union(*map(_codes, more_ignored))
    return (chosen | _codes(options.extend_select)) - ignored


def _codes(names: tuple[str, ...]) -> frozenset[str]:
    from syncheck.rules import catalogue  # noqa: PLC0415  36 modules that `--help` does not need

    return frozenset(rule.code for name in names for rule in catalogue.matching(name))
