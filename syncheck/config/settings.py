"""Sources of setting values: defaults, `[tool.syncheck]`, environment variables, the command line."""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

from syncheck.config.kinds import Kind
from syncheck.config.options import BY_NAME, SETTINGS, Options, Setting, settings_of
from syncheck.errors import ConfigError, nearest
from syncheck.system import files

Layer: TypeAlias = tuple[tuple[str, Any], ...]
"""The settings from one source: (field of `Options`, value) pairs."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_forgetters: list[Callable[[], None]] = []

_BY_KEY = {setting.key: setting for setting in SETTINGS if setting.is_in_file}


class _Table(NamedTuple):
    """The settings of a file.

    Attributes:
        root: the folder of the file.
        path: the file.
        values: the raw TOML values.
    """

    root: str
    path: str
    values: dict[str, Any]


def layer_of(**values: Any) -> Layer:
    """Return the settings that a source provides: those that are neither None nor empty."""
    return tuple((name, value) for name, value in values.items() if value is not None and value != ())


def value_of(setting: Setting, given: Any, source: str = "") -> Any:
    """Return the value of a setting from its text on the command line; None for None.

    Args:
        setting: the setting.
        given: a text, several for a list, or a value that is not text.
        source: the name under which the user set it; "" for the command-line option.

    Raises:
        ConfigError: a text is invalid; the message names the source.
    """
    if given is None or isinstance(given, bool):
        return given
    try:
        if setting.kind.is_list:
            return tuple(part for text in given for part in _parts(setting.kind, text))
        return setting.kind.from_text(str(given))
    except ConfigError as error:
        source = source or setting.options[0].partition("/")[0]
        raise ConfigError(str(error).replace("invalid value", f"invalid value for {source}:"), error.hint) from None


def _parts(kind: Kind, text: str) -> tuple[str, ...]:
    parts: Any = kind.from_text(text)
    return tuple(parts)


def as_arguments(layer: Layer) -> tuple[str, ...]:
    """Return settings as command-line arguments for ranks that check like this process and leave the report to it."""
    found: list[str] = []
    for name, value in layer:
        setting = BY_NAME[name]
        if not setting.is_for_ranks:
            continue
        option, _, negated = setting.options[0].partition("/")
        if isinstance(value, bool):
            found.append(option if value else negated)
        else:
            values = value if setting.kind.is_list else (value,)
            found += [word for each in values for word in (option, setting.kind.to_text(each))]
    return tuple(found)


def options_for(path: str, layer: Layer = ()) -> Options:
    """Return the settings of `lint` for a file: the nearest pyproject.toml, overridden by the command line.

    Raises:
        ConfigError: the settings cannot be read, or name something that does not exist.
    """
    return options_in(os.path.dirname(path), layer, command="lint")


def options_in(folder: str = "", layer: Layer = (), *, command: str) -> Options:
    """Return the settings for a folder, as `options_for` does for a file in it.

    Args:
        folder: where to start looking for a pyproject.toml; "" for the working directory.
        layer: the settings from the command line.
        command: "run", "replay", "merge", "lint" or "pytest"; settings of other commands are ignored. "" for all.

    Raises:
        ConfigError: the settings cannot be read, or name something that does not exist, or there is no working
            directory.
    """
    return _merged(absolute_folder(folder), layer, command, _environment())


def absolute_folder(folder: str) -> str:
    """Return the absolute path of a folder; "" for the working directory.

    Raises:
        ConfigError: the working directory does not exist.
    """
    try:
        return os.path.abspath(folder)
    except FileNotFoundError as error:
        raise ConfigError("the working directory does not exist", "change to a folder that exists") from error


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple((s.variable, os.environ[s.variable]) for s in SETTINGS if s.is_in_file and s.variable in os.environ)


def cached_until_forget(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a function of the settings files: cache its results until `forget` is called."""
    cached = lru_cache(maxsize=4096)(function)
    _forgetters.append(cached.cache_clear)
    return cast(Callable[_P, _T], cached)


def forget() -> None:
    """Drop the cached settings, because the files may have changed."""
    for forget_results in _forgetters:
        forget_results()


@cached_until_forget
def _merged(folder: str, layer: Layer, command: str, environment: tuple[tuple[str, str], ...]) -> Options:
    found = _table_for(folder, dict(layer))
    root, from_file = (found.root, _read(*found)) if found is not None else ("", {})
    allowed = {s.name for s in (settings_of(command) if command else SETTINGS)}
    values = {name: value for name, value in from_file.items() if name in allowed}
    for name, value in (*_from_environment(dict(environment), allowed), *layer):
        setting = BY_NAME.get(name)
        values[name] = (*values.get(name, ()), *value) if setting is not None and setting.is_added else value
    options = Options(**values, root=root)
    if command not in _LOADING_RULES and not (
        from_file.get("rules") or dict(environment).get(BY_NAME["rules"].variable)
    ):
        options.check_rules()
    return options


_LOADING_RULES = frozenset({"", "lint"})
"""The commands that load the project's rules, and check the names of rules once they have. "": `config` names all."""


def _from_environment(variables: dict[str, str], allowed: set[str]) -> Layer:
    found: list[tuple[str, Any]] = []
    for setting in SETTINGS if variables else ():
        text = variables.get(setting.variable, "")
        if text and setting.name in allowed:
            try:
                found.append((setting.name, setting.kind.from_text(text)))
            except ConfigError as error:
                raise ConfigError(f"{setting.variable}: {error}", error.hint) from None
    return tuple(found)


def origins(folder: str = "") -> list[tuple[Setting, Any, str]]:
    """Return each setting that a file can set, its value in a folder ("" for the working directory), and its source.

    Raises:
        ConfigError: see `options_in`.
    """
    found = _table_of(absolute_folder(folder))
    options = options_in(folder, command="")
    file, in_file = (found.path, found.values.keys()) if found is not None else ("", ())

    def origin(setting: Setting) -> str:
        if os.environ.get(setting.variable):
            return setting.variable
        return file if setting.key in in_file else "default"

    return [(s, getattr(options, s.name), origin(s)) for s in SETTINGS if s.is_in_file]


def sources(folder: str, options: Options, command: str) -> list[str]:
    """Return the sources of the settings for a folder besides the command line: a file and environment variables.

    Args:
        folder: see `options_in`.
        options: the options, of which `config` and `isolated` are used.
        command: see `options_in`.

    Raises:
        ConfigError: see `options_in`.
    """
    found = _table_for(absolute_folder(folder), {"config": options.config, "isolated": options.isolated})
    variables_of_command = {setting.variable for setting in settings_of(command)}
    variables = [name for name, text in _environment() if text and name in variables_of_command]
    return [*([found.path] if found is not None else []), *variables]


def _table_for(folder: str, layer: dict[str, Any]) -> _Table | None:
    """Return the table selected by the command line: that of the file it names, that of the nearest file, or None."""
    if layer.get("isolated"):
        return None
    if layer.get("config") is None:
        return _table_of(folder)
    path = str(layer["config"])
    document = document_of(path)
    is_pyproject = path.endswith("pyproject.toml")
    header = "[tool.syncheck]" if "tool" in document else "[syncheck]" if "syncheck" in document else ""
    if header and not is_pyproject:
        raise ConfigError(
            f"{path} has the table {header}", "the whole file is the table: remove the line with its name"
        )
    table = tools_of(document).get("syncheck", {}) if is_pyproject else document
    return _Table(os.path.dirname(path), path, _check_table(table, path))


def document_of(path: str) -> dict[str, Any]:
    """Return the contents of a TOML file.

    Raises:
        ConfigError: it cannot be read.
    """
    import tomllib  # noqa: PLC0415  --help needs no settings

    try:
        return tomllib.loads(files.read(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = "save it as UTF-8" if isinstance(error, UnicodeDecodeError) else _hint_for(str(error))
        raise ConfigError(f"cannot read {path}: {error}", hint) from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}", "name a file that can be read") from error


def tools_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the [tool] table of a pyproject.toml; empty if there is none, or if it is not a table."""
    tools = document.get("tool", {})
    return tools if isinstance(tools, dict) else {}


def _hint_for(error: str) -> str:
    """Return the hint for an error of tomllib, based on its wording for duplicate definitions."""
    if "overwrite" in error:
        return "a key is defined twice: remove one of the two"
    return "a table is defined twice: merge the two" if "twice" in error else "fix the TOML syntax error"


@cached_until_forget
def document_in(folder: str) -> dict[str, Any]:
    """Return the contents of a folder's pyproject.toml; empty if there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    path = os.path.join(folder, "pyproject.toml")
    return document_of(path) if os.path.isfile(path) else {}


@cached_until_forget
def _table_of(folder: str) -> _Table | None:
    """Return the [tool.syncheck] table of the nearest pyproject.toml that has one, in a folder or above it."""
    table = tools_of(document_in(folder)).get("syncheck")
    if table is not None:
        path = os.path.join(folder, "pyproject.toml")
        return _Table(folder, path, _check_table(table, path))
    above = os.path.dirname(folder)
    return None if above == folder else _table_of(above)


def _check_table(table: Any, where: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError(f"[tool.syncheck] in {where} is not a table", "write its settings as `key = value` lines")
    for key in table:
        if key not in _BY_KEY:
            setting = BY_NAME.get(key.replace("-", "_"))
            if setting is not None and not setting.is_in_file:
                hint = f"only the command line can set it: {setting.options[0].partition('/')[0]}"
            else:
                hint = nearest(key, _BY_KEY) or f"the settings are {', '.join(_BY_KEY)}"
            raise ConfigError(f"[tool.syncheck] in {where} has no setting {key!r}", hint)
    return table


def _read(root: str, file: str, table: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        setting = _BY_KEY[key]
        try:
            found = setting.kind.from_toml(value)
        except TypeError:
            few = ", ".join(setting.kind.choices)
            hint = f"choose from {few}" if few else f"write, for example, {key} = {setting.example}"
            raise ConfigError(f"invalid value for {key} in {file}: {value!r}", hint) from None
        except ConfigError as error:
            raise ConfigError(f"{key} in {file}: {error}", error.hint) from None
        values[setting.name] = Path(root) / found if isinstance(found, Path) else found
    return values
