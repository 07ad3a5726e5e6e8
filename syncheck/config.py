"""What the user chose: one frozen value, one field a setting; and `[tool.syncheck]` of pyproject.toml."""

import difflib
import os
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any

from syncheck.errors import ConfigError
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


@dataclass(frozen=True, slots=True)
class LintOptions:
    """Settings of `lint`.

    Attributes:
        select: rule codes, prefixes or names to report; empty for all.
        extend_select: those to report as well.
        ignore: those not to report; wins over both.
        per_file_ignores: (pattern, those not to report in files that match it); patterns are relative to `root`.
        exclude: patterns of files and folders to leave out, as in a .gitignore.
        respect_gitignore: leave out what git ignores.
        fail_on: the mildest level that makes the exit status 1.
        root: the folder of the pyproject.toml that holds the settings; "" if there is none.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    fail_on: Severity = Severity.WARNING
    root: str = ""

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
def _selected(options: LintOptions, more_ignored: tuple[tuple[str, ...], ...]) -> frozenset[str]:
    chosen = _codes(options.select) or _codes(("ALL",))
    ignored = _codes(options.ignore).union(*map(_codes, more_ignored))
    return (chosen | _codes(options.extend_select)) - ignored


_KEYS = ("select", "extend-select", "ignore", "per-file-ignores", "exclude", "respect-gitignore", "fail-on")


def options_for(path: str, given: LintOptions) -> LintOptions:
    """Return the settings for a file: those of the nearest pyproject.toml above it, under those of the command line.

    Args:
        path: the file.
        given: the command line's; what it leaves at its default is the file's.

    Raises:
        ConfigError: the settings cannot be read, or name what does not exist.
    """
    return _merged(os.path.dirname(os.path.abspath(path)), given)


@lru_cache(maxsize=4096)
def _merged(folder: str, given: LintOptions) -> LintOptions:
    found = _settings(folder)
    if found is None:
        return given
    root, table = found
    own = _read(table, os.path.join(root, "pyproject.toml"))
    return replace(
        given,
        select=given.select or own.select,
        extend_select=(*own.extend_select, *given.extend_select),
        ignore=(*own.ignore, *given.ignore),
        per_file_ignores=(*own.per_file_ignores, *given.per_file_ignores),
        exclude=(*own.exclude, *given.exclude),
        respect_gitignore=own.respect_gitignore and given.respect_gitignore,
        fail_on=own.fail_on if given.fail_on is Severity.WARNING else given.fail_on,
        root=root,
    )


@lru_cache(maxsize=4096)
def _settings(folder: str) -> tuple[str, Any] | None:
    """Return the nearest folder, from one upwards, whose pyproject.toml has [tool.syncheck], and that table."""
    import tomllib  # noqa: PLC0415  `--help` needs no settings

    path = os.path.join(folder, "pyproject.toml")
    if os.path.isfile(path):
        try:
            with open(path, "rb") as file:
                table = tomllib.load(file).get("tool", {}).get("syncheck")
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {path}: {error}", "mend the file, or lint outside of its folder") from error
        if table is not None:
            return folder, table
    above = os.path.dirname(folder)
    return None if above == folder else _settings(above)


def _read(table: Any, where: str) -> LintOptions:
    if not isinstance(table, dict):
        raise ConfigError(f"[tool.syncheck] in {where} is no table", "write its settings as `key = value` lines")
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(_KEYS)}"
            raise ConfigError(f"[tool.syncheck] in {where} has no setting {key!r}", hint)
    ignores = table.get("per-file-ignores", {})
    if not isinstance(ignores, dict):
        raise ConfigError(f"per-file-ignores in {where} is no table", 'write { "tests/*" = ["SYN7"] }')
    level = table.get("fail-on", "warning")
    if level not in set(Severity):
        raise ConfigError(f"fail-on in {where} is {level!r}", f"choose one of {', '.join(Severity)}")
    return LintOptions(
        _names(table, "select", where), _names(table, "extend-select", where), _names(table, "ignore", where),
        tuple((pattern, _names(ignores, pattern, where)) for pattern in ignores),
        _names(table, "exclude", where), bool(table.get("respect-gitignore", True)), Severity(level),
    )  # fmt: skip


def _names(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"{key} in {where} is no list of strings", f'write {key} = ["SYN1", "SYN201"]')
    return tuple(value)


def _codes(names: tuple[str, ...]) -> frozenset[str]:
    from syncheck.rules import catalogue  # noqa: PLC0415  36 modules that `--help` does not need

    return frozenset(rule.code for name in names for rule in catalogue.matching(name))
