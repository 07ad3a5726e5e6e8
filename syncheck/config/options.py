"""All settings, each declared once: name, kind, default, help, and the commands that use it.

The command line, `[tool.syncheck]`, the options and settings of the pytest plugin, the environment variables, `syncheck
config` and the documentation are derived from the fields of `Options`.
"""

import os
from dataclasses import Field, dataclass, field, fields
from fnmatch import fnmatch
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from syncheck.config import kinds
from syncheck.config.kinds import Kind
from syncheck.errors import ConfigError
from syncheck.paths import relative_path
from syncheck.rules.model import Severity

_ALL = ("run", "replay", "merge", "lint", "pytest")
_REPORTING = ("run", "replay", "merge", "lint")
_RUNNING = ("run", "overlap", "pytest")
_DRAWING = ("run", "replay", "overlap")


@dataclass(frozen=True)
class Setting:
    """Declaration of how a field of `Options` can be set.

    Attributes:
        name: name of the field.
        kind: kind of its values.
        help: its description, for the help and the documentation.
        commands: the commands that use it; "pytest" is the plugin.
        example: a valid value in TOML; "" if only the command line can set it.
        is_added: whether the values of all sources are combined, instead of one source overriding the others.
        panel: its heading in the help.
        flags: its command-line options, if they are not derived from the name.
        default: the value if no source sets it.
        is_for_ranks: whether ranks that a launcher inside the run starts are given it. The others concern the report of
            the whole job.
    """

    name: str
    kind: Kind
    help: str
    commands: tuple[str, ...]
    example: str
    is_added: bool
    panel: str
    flags: tuple[str, ...]
    default: Any
    is_for_ranks: bool

    @cached_property
    def key(self) -> str:
        """Its key in `[tool.syncheck]`."""
        return self.name.replace("_", "-")

    @property
    def is_in_file(self) -> bool:
        """Return whether `[tool.syncheck]` can set it."""
        return bool(self.example)

    @property
    def values(self) -> str:
        """The values that it accepts, if there are few, and its default, if it has one; else ""."""
        parts = [f"choices: {', '.join(self.kind.choices)}"] if self.kind.choices else []
        if self.kind.annotation is not bool and self.default not in {None, (), "", 0}:
            default = f"{self.default:g}" if isinstance(self.default, float) else self.default
            parts.append(f"default: {default}")
        return "; ".join(parts)

    @cached_property
    def variable(self) -> str:
        """Its environment variable."""
        return f"SYNCHECK_{self.name.upper()}"

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Its command-line options."""
        if self.flags:
            return self.flags
        return (f"--{self.key}/--no-{self.key}",) if self.kind is kinds.FLAG else (f"--{self.key}",)


def _setting(
    default: Any,
    kind: Kind,
    text: str,
    *,
    commands: tuple[str, ...] = _ALL,
    example: str = "",
    is_added: bool = False,
    panel: str = "Report",
    flags: tuple[str, ...] = (),
    is_for_ranks: bool = True,
) -> Any:
    parts = {"kind": kind, "help": text, "commands": commands, "example": example, "is_added": is_added}
    more = {"panel": panel, "flags": flags, "default": default, "is_for_ranks": is_for_ranks}
    return field(default=default, metadata={**parts, **more})


FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "junit")
MAX_DEVICES = 64


@dataclass(frozen=True, slots=True)
class Options:
    """The value of every setting; each command reads the settings that concern it."""

    select: tuple[str, ...] = _setting(
        (), kinds.RULES, "Rules to report: codes, prefixes (SYN1) or names; all by default.",
        example='["SYN1", "SYN201"]', panel="Rules",
    )  # fmt: skip
    extend_select: tuple[str, ...] = _setting(
        (), kinds.RULES, "Additional rules to report.", example='["unordered-read"]', is_added=True, panel="Rules"
    )
    ignore: tuple[str, ...] = _setting(
        (), kinds.RULES, "Rules not to report.", example='["SYN303"]', is_added=True, panel="Rules"
    )
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = _setting(
        (), kinds.RULES_BY_PATTERN, "Rules not to report in files that match a pattern.",
        example='{ "tests/*" = ["SYN7"] }', is_added=True, panel="Rules",
    )  # fmt: skip
    rules: tuple[str, ...] = _setting(
        (), kinds.MODULES, "Modules that define your own rules.", commands=("lint",), example='["acme.rules"]',
        is_added=True, panel="Extensions",
    )  # fmt: skip
    models: tuple[str, ...] = _setting(
        (), kinds.MODULES, "Modules that describe what libraries do on GPUs.", commands=("run", "lint", "pytest"),
        example='["acme.gpu_models"]', is_added=True, panel="Extensions",
    )  # fmt: skip
    third_party: str = _setting(
        "short", kinds.choice("short", "full", "off", metavar="HOW"),
        "How to show findings that concern only installed packages.",
        commands=("run", "replay", "merge", "pytest"), example='"off"',
    )  # fmt: skip
    fail_on: Severity = _setting(
        Severity.WARNING, kinds.LEVEL, "Lowest level that makes the exit status 1.", example='"error"'
    )
    max_findings: int = _setting(
        0, kinds.integer(0, 1 << 31), "Show at most this many findings; 0: all (in a run, up to 5,000).",
        commands=_REPORTING, example="20", is_for_ranks=False,
    )  # fmt: skip
    output_format: str = _setting(
        "text", kinds.choice(*FORMATS, metavar="FORMAT"), "Format of the report.", example='"concise"',
        is_for_ranks=False,
    )  # fmt: skip
    output: Path | None = _setting(
        None, kinds.PATH, "Write the report to this file.", commands=(*_REPORTING, "overlap"), is_for_ranks=False
    )
    color: str = _setting(
        "auto", kinds.choice("auto", "always", "never", metavar="WHEN"), "Color the report; auto: on a terminal.",
        commands=(*_REPORTING, "overlap"),
    )  # fmt: skip
    quiet: bool = _setting(
        False, kinds.FLAG, "Print findings and errors only.", commands=_REPORTING, flags=("--quiet", "-q")
    )
    verbose: bool = _setting(
        False, kinds.FLAG, "Print what is read, skipped and chosen, and why, with timings.",
        commands=("run", "lint", "overlap"), flags=("--verbose", "-v"),
    )  # fmt: skip
    exit_zero: bool = _setting(
        False, kinds.FLAG, "Exit with status 0 even if there are findings.", commands=_REPORTING,
        flags=("--exit-zero",),
    )  # fmt: skip
    strict: bool = _setting(
        False, kinds.FLAG, "Also report findings that rest on assumptions, as warnings that name them.",
        commands=("lint",), example="true", panel="Rules",
    )  # fmt: skip
    show_fixes: bool = _setting(
        False, kinds.FLAG, "List the fixes that were applied.", commands=("lint",), example="true", panel="Fixes"
    )
    stacks: bool = _setting(
        False, kinds.FLAG, "Show full call stacks.", commands=("run", "replay", "merge"), example="true",
        is_for_ranks=False,
    )  # fmt: skip
    baseline: Path | None = _setting(
        None, kinds.PATH, "Ignore the findings listed in this file.", example='"syncheck-baseline.json"',
        panel="Known findings", is_for_ranks=False,
    )  # fmt: skip
    write_baseline: bool = _setting(
        False, kinds.FLAG, "Write the current findings to the baseline.", panel="Known findings",
        flags=("--write-baseline",), is_for_ranks=False,
    )  # fmt: skip
    backend: str = _setting(
        "auto", kinds.choice("auto", "cuda", "sim", metavar="BACKEND"),
        "Real GPUs (cuda) or simulated ones (sim); auto: real ones if there are any.",
        commands=_RUNNING, example='"sim"', panel="GPUs",
    )  # fmt: skip
    recorder: str = _setting(
        "auto", kinds.choice("auto", "native", "python", metavar="RECORDER"),
        "How operators on real GPUs are recorded; auto: in C++, if the extension can be built.",
        commands=_RUNNING, example='"python"', panel="GPUs",
    )  # fmt: skip
    devices: int = _setting(
        2, kinds.integer(1, MAX_DEVICES), "Number of simulated GPUs.", commands=_RUNNING, example="4", panel="GPUs"
    )
    device_type: str = _setting(
        "cuda", kinds.choice("cuda", "xpu", metavar="TYPE"),
        "The torch module whose GPUs are simulated.", commands=_RUNNING,
        example='"xpu"', panel="GPUs",
    )  # fmt: skip
    fail_fast: bool = _setting(
        False, kinds.FLAG, "End the program at the first finding that fails the run, without `finally` and `atexit`.",
        commands=("run",),
        example="true", panel="Run",
    )  # fmt: skip
    trace: Path | None = _setting(
        None, kinds.PATH, "Record the run in this file (a long run in several) for `syncheck replay`.",
        commands=("run", "overlap"),
        panel="Run",
    )  # fmt: skip
    trace_size: kinds.Size = _setting(
        kinds.Size(64 << 20), kinds.SIZE, "Start a new trace file at this size.",
        commands=("run", "overlap"), example='"16MiB"', panel="Run",
    )  # fmt: skip
    times: bool = _setting(
        False, kinds.FLAG, "Measure how long each operator takes, so that `syncheck overlap` can analyze the trace.",
        commands=("run",), example="true", panel="Run",
    )  # fmt: skip
    timed_operators: int = _setting(
        10_000, kinds.integer(1, 1_000_000),
        "Number of operators to measure on real GPUs and show; the rest are checked without times.",
        commands=("run", "overlap", "pytest"), example="2000", panel="Timeline",
    )  # fmt: skip
    perfetto: Path | None = _setting(
        None, kinds.PATH, "Write a timeline to this file, for ui.perfetto.dev.", commands=_DRAWING, panel="Timeline"
    )
    html: Path | None = _setting(
        None, kinds.PATH, "Write an HTML page with the timeline to this file.", commands=(*_DRAWING, "pytest"),
        panel="Timeline",
    )  # fmt: skip
    steps: tuple[int, int | None] | None = _setting(
        None, kinds.STEPS, "Check only these optimizer steps, from 0, without LAST: 100:120, or 100: to the end.",
        commands=("run", "overlap"),
        panel="Run",
    )  # fmt: skip
    budget: float | None = _setting(
        None, kinds.BUDGET, "Check only windows of steps that cost at most this share of the run's time in total.",
        commands=("run",), example='"5%"', panel="Run",
    )  # fmt: skip
    witness: bool = _setting(
        False, kinds.FLAG, "Rerun each race with its two accesses in the opposite order, and show what changes.",
        commands=("run", "pytest"), example="true", panel="Proof",
    )  # fmt: skip
    confirm: bool = _setting(
        False, kinds.FLAG, "Rerun each race on real GPUs with its earlier access delayed, and show what changes.",
        commands=("run",), panel="Proof",
    )  # fmt: skip
    schedule: str = _setting(
        "", kinds.SCHEDULE, "Run with this schedule, as printed by --witness, --confirm or --schedules.",
        commands=("run",), panel="Proof",
    )  # fmt: skip
    schedules: int = _setting(
        0, kinds.integer(0, 1 << 31), "Rerun with this many random schedules, and show which results differ.",
        commands=("run",), example="20", panel="Proof",
    )  # fmt: skip
    seed: int = _setting(
        0, kinds.integer(0, 1 << 31), "Seed of the first random schedule.", commands=("run",), example="1",
        panel="Proof",
    )  # fmt: skip
    proof_limit: float = _setting(
        300.0, kinds.SECONDS, "Stop a rerun that tries to prove a race after this many seconds; 0: never.",
        commands=("run",), example="60", panel="Proof", flags=("--proof-limit", "--confirm-limit"),
    )  # fmt: skip
    nproc: int = _setting(
        0, kinds.integer(1, 4096), "Number of ranks to start on this machine.", commands=("run",), panel="Ranks",
        is_for_ranks=False,
    )  # fmt: skip
    ranks_dir: Path | None = _setting(
        None, kinds.PATH, "Folder for the records of a job's ranks; unused by a single process.", commands=("run",),
        example='"/shared/syncheck"', panel="Ranks",
    )  # fmt: skip
    hang_timeout: float = _setting(
        0.0, kinds.SECONDS, "Stop the job after this many seconds without progress; 0: never.", commands=("run",),
        example="300", panel="Ranks",
    )  # fmt: skip
    exclude: tuple[str, ...] = _setting(
        (), kinds.STRINGS, "Files and folders to exclude, as in a .gitignore.", commands=("lint",),
        example='["third_party/"]', is_added=True, panel="Files",
    )  # fmt: skip
    force_exclude: bool = _setting(
        False, kinds.FLAG, "Exclude files even if they are named on the command line.", commands=("lint",),
        example="true", panel="Exclusions",
    )  # fmt: skip
    respect_gitignore: bool = _setting(
        True, kinds.FLAG, "Exclude files that git ignores.", commands=("lint",), example="false", panel="Exclusions"
    )
    config: Path | None = _setting(
        None, kinds.PATH, "Read the settings from this TOML file.", commands=(*_REPORTING, "overlap"), panel="Settings"
    )
    isolated: bool = _setting(
        False, kinds.FLAG, "Ignore all settings files.", commands=(*_REPORTING, "overlap"), flags=("--isolated",),
        panel="Settings",
    )  # fmt: skip
    root: str = ""
    """Folder of the pyproject.toml that the settings come from; "" if there is none."""

    @property
    def wants_times(self) -> bool:
        """Return whether operators and their times are recorded for a timeline."""
        return self.times or self.is_drawn

    @property
    def is_drawn(self) -> bool:
        """Return whether to write a timeline."""
        return self.perfetto is not None or self.html is not None

    def check_budget(self) -> None:
        """Check that a budget is not combined with options that need the whole run, or one window.

        Raises:
            ConfigError: it is.
        """
        wanted = (name for name in _WHOLE_RUN if getattr(self, name))
        other = next(wanted, None) if self.budget is not None else None
        if other is not None:
            raise ConfigError(
                f"--budget and {BY_NAME[other].options[0].partition('/')[0]} cannot be combined",
                "omit one of them; --isolated ignores a budget in pyproject.toml",
            )

    def selected(self) -> frozenset[str]:
        """Return the codes of the rules to report.

        Raises:
            ConfigError: a rule name does not exist.
        """
        return _selected(self, ())

    def check_rules(self) -> None:
        """Check that each rule that the settings name exists, including those of a project.

        Raises:
            ConfigError: a rule does not exist.
        """
        from syncheck.rules import catalogue  # noqa: PLC0415  --help needs none of its modules

        in_files = (name for _, names in self.per_file_ignores for name in names)
        for name in (*self.select, *self.extend_select, *self.ignore, *in_files):
            catalogue.matching(name)

    def codes_for(self, path: str) -> frozenset[str]:
        """Return the codes of the rules to report in a file.

        Raises:
            ConfigError: a rule name does not exist.
        """
        return _selected(self, tuple(names for pattern, names in self.per_file_ignores if self._matches(path, pattern)))

    def _matches(self, path: str, pattern: str) -> bool:
        relative = relative_path(path, self.root or ".")
        return fnmatch(relative, pattern) or fnmatch(os.path.basename(path), pattern)


_WHOLE_RUN = ("steps", "trace", "times", "perfetto", "html", "witness", "confirm", "schedule", "schedules")


def _declared(declared: Field[Any]) -> Setting:
    return Setting(declared.name, **declared.metadata)


SETTINGS = tuple(_declared(declared) for declared in fields(Options) if declared.metadata)
BY_NAME = {setting.name: setting for setting in SETTINGS}


def settings_of(command: str) -> tuple[Setting, ...]:
    """Return the settings of a command."""
    return tuple(setting for setting in SETTINGS if command in setting.commands)


@lru_cache(maxsize=256)
def _selected(options: Options, further_ignored: tuple[tuple[str, ...], ...]) -> frozenset[str]:
    chosen = _codes(options.select or ("ALL",))
    ignored = _codes(options.ignore).union(*map(_codes, further_ignored))
    return (chosen | _codes(options.extend_select)) - ignored


def _codes(names: tuple[str, ...]) -> frozenset[str]:
    from syncheck.rules import catalogue  # noqa: PLC0415  --help needs none of its modules

    return catalogue.codes_of(names)
