"""Where settings come from: `[tool.syncheck]` of pyproject.toml, under what a command line says."""

import difflib
import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.rules.model import Severity

FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "junit")
BACKENDS = ("auto", "cuda", "sim")
THIRD_PARTY = ("short", "full", "off")
MOST_DEVICES = 64

Layer: TypeAlias = tuple[tuple[str, Any], ...]
"""Settings of one source: (field of `Options`, value)."""

_SHOWING = ("run", "replay", "merge", "lint")
_ALL = ("run", "replay", "merge", "lint", "pytest")


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return tuple(value)


def _rules(value: object) -> tuple[str, ...]:
    from syncheck.rules import catalogue  # noqa: PLC0415  36 modules that `--help` does not need

    names = _names(value)
    for name in names:
        catalogue.matching(name)
    return names


def _table_of_rules(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise TypeError
    return tuple((pattern, _rules(names)) for pattern, names in value.items())


def _yes_or_no(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _number(least: int, most: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise TypeError
        return value

    return read


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise TypeError
    return float(value)


def _one_of(*allowed: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in allowed:
            raise TypeError
        return str(value)

    return read


def _level(value: object) -> Severity:
    return Severity(_one_of(*Severity)(value))


def _path(value: object) -> Path:
    if not isinstance(value, str) or not value:
        raise TypeError
    return Path(value)


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of `[tool.syncheck]`.

    Attributes:
        key: as it is written in the file.
        read: turns a value of the file into that of the option; raises TypeError for a wrong one.
        example: a right value, as it is written in the file.
        meaning: for the documentation.
        commands: the commands that it is for; "pytest" is the plugin.
        is_added: the values of all sources count, and not only that of the command line.
        choices: the values that it can have, where they are few.
    """

    key: str
    read: Callable[[object], object]
    example: str
    meaning: str
    commands: tuple[str, ...] = _ALL
    is_added: bool = False
    choices: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """The field of `Options`."""
        return self.key.replace("-", "_")


SETTINGS = (
    Setting("select", _rules, '["SYN1", "SYN201"]', "rules to report (codes, prefixes, names); all, if left out"),
    Setting("extend-select", _rules, '["unordered-read"]', "rules to report as well", is_added=True),
    Setting("ignore", _rules, '["SYN303"]', "rules not to report", is_added=True),
    Setting(
        "per-file-ignores", _table_of_rules, '{ "tests/*" = ["SYN7"] }', "rules not to report in some files",
        is_added=True,
    ),
    Setting(
        "third-party", _one_of(*THIRD_PARTY), '"off"',
        "findings whose places all lie in installed packages: in short, full, or off",
        ("run", "replay", "merge", "pytest"), choices=THIRD_PARTY,
    ),
    Setting("fail-on", _level, '"error"', "mildest level that fails", choices=tuple(Severity)),
    Setting("baseline", _path, '"syncheck-baseline.json"', "file of the findings that are known"),
    Setting("max-findings", _number(0, 1 << 31), "20", "findings to show; 0 for all", _SHOWING),
    Setting("output-format", _one_of(*FORMATS), '"concise"', "format of the report", _SHOWING,
            choices=FORMATS),
    Setting("stacks", _yes_or_no, "true", "show whole call stacks", ("run", "replay", "merge")),
    Setting("backend", _one_of(*BACKENDS), '"sim"', "real or simulated GPUs", ("run", "pytest"), choices=BACKENDS),
    Setting("devices", _number(1, MOST_DEVICES), "4", "number of simulated GPUs", ("run", "pytest")),
    Setting("fail-fast", _yes_or_no, "true", "end the program at the first failing finding", ("run",)),
    Setting("ranks-dir", _path, '"/shared/syncheck"', "folder for what the ranks of a job tell each other", ("run",)),
    Setting("hang-timeout", _seconds, "300", "seconds after which a job that hangs is ended; 0: never", ("run",)),
    Setting("exclude", _names, '["third_party/"]', "what not to lint, as in a .gitignore", ("lint",), is_added=True),
    Setting("respect-gitignore", _yes_or_no, "false", "do not lint what git ignores", ("lint",)),
)  # fmt: skip
BY_KEY = {setting.key: setting for setting in SETTINGS}
DEFAULTS = {field.name: field.default for field in fields(Options) if field.default is not MISSING}


def given(**values: Any) -> Layer:
    """Return the settings that a command line has: those that are not None and not empty."""
    return tuple((name, value) for name, value in values.items() if value is not None and value != ())


def as_arguments(layer: Layer) -> tuple[str, ...]:
    """Return settings as a command line has them, but for those that say where the report goes and what it leaves out.

    So a rank is started that checks as this process does, and leaves the report to it.
    """
    found: list[str] = []
    for name, value in layer:
        if name in _OF_THE_REPORT:
            continue
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        found += [f"--{name.replace('_', '-')}", *([] if value is True else [text])]
    return tuple(found)


_OF_THE_REPORT = frozenset("output output_format baseline write_baseline max_findings stacks steps trace nproc".split())


def options_for(path: str, layer: Layer = ()) -> Options:
    """Return what `lint` takes for a file: the nearest pyproject.toml's settings, under those of the command line.

    Raises:
        ConfigError: the settings cannot be read, or name what does not exist.
    """
    return options_in(os.path.dirname(path), layer, command="lint")


def options_in(folder: str = "", layer: Layer = (), *, command: str) -> Options:
    """Return the settings for a folder, "" for the working directory: as `options_for` does for a file in it.

    Args:
        folder: where to begin to look for a pyproject.toml.
        layer: the settings of the command line.
        command: "run", "replay", "lint" or "pytest"; what the file says for others is left out. "" takes all.
    """
    return _merged(os.path.abspath(folder), layer, command)


def forget() -> None:
    """Read the files again when they are asked for next: they may have changed."""
    _merged.cache_clear()
    _table_of.cache_clear()


@lru_cache(maxsize=4096)
def _merged(folder: str, layer: Layer, command: str) -> Options:
    found = _table_of(folder)
    root, own = (found[0], _read(*found)) if found is not None else ("", {})
    own = {s.field: own[s.field] for s in SETTINGS if s.field in own and command in {"", *s.commands}}
    for name, value in layer:
        setting = BY_KEY.get(name.replace("_", "-"))
        own[name] = (*own.get(name, ()), *value) if setting is not None and setting.is_added else value
    return Options(**own, root=root)


def origins(folder: str = "") -> list[tuple[Setting, Any, str]]:
    """Return each setting, its value in a folder ("" for the working directory), and where that comes from.

    Raises:
        ConfigError: as `options_in`.
    """
    found = _table_of(os.path.abspath(folder))
    options = options_in(folder, command="")
    file = os.path.join(found[0], "pyproject.toml") if found is not None else ""
    given_keys = found[1].keys() if found is not None else ()
    return [(s, getattr(options, s.field), file if s.key in given_keys else "default") for s in SETTINGS]


@lru_cache(maxsize=4096)
def _table_of(folder: str) -> tuple[str, dict[str, Any]] | None:
    """Return the nearest folder, from one upwards, whose pyproject.toml has [tool.syncheck], and that table."""
    import tomllib  # noqa: PLC0415  `--help` needs no settings

    path = os.path.join(folder, "pyproject.toml")
    if os.path.isfile(path):
        try:
            with open(path, "rb") as file:
                tools = tomllib.load(file).get("tool", {})
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {path}: {error}", "mend the file, or work outside of its folder") from error
        table = tools.get("syncheck") if isinstance(tools, dict) else None
        if table is not None:
            return folder, _checked(table, path)
    above = os.path.dirname(folder)
    return None if above == folder else _table_of(above)


def _checked(table: Any, where: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError(f"[tool.syncheck] in {where} is no table", "write its settings as `key = value` lines")
    for key in table:
        if key not in BY_KEY:
            near = difflib.get_close_matches(key, BY_KEY, 1)
            hint = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(BY_KEY)}"
            raise ConfigError(f"[tool.syncheck] in {where} has no setting {key!r}", hint)
    return table


def _read(root: str, table: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        setting = BY_KEY[key]
        try:
            values[setting.field] = setting.read(value)
        except TypeError:
            where, few = os.path.join(root, "pyproject.toml"), ", ".join(setting.choices)
            hint = f"choose one of {few}" if few else f"write, for example, {key} = {setting.example}"
            raise ConfigError(f"{key} in {where} cannot be {value!r}", hint) from None
        except ConfigError as error:
            raise ConfigError(f"{key} in {os.path.join(root, 'pyproject.toml')}: {error}", error.hint) from None
    for name in ("baseline", "ranks_dir"):
        if name in values:
            values[name] = Path(root) / values[name]
    return values
