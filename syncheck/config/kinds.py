"""Kinds of values that a setting can have, and how each is read from TOML and from text.

Text comes from the command line, from pytest's configuration file or from the environment.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syncheck.errors import ConfigError, nearest
from syncheck.rules.model import Severity


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value.

    Attributes:
        annotation: the type of a single value, for the command line.
        from_toml: converts a TOML value to the setting's value; raises TypeError if it is invalid.
        from_text: converts text to the setting's value; raises ConfigError if it is invalid.
        choices: the allowed values, if there are few.
        is_list: whether several values are allowed.
        metavar: placeholder for the value in the help.
        is_text: whether the value can be written as text, and thus on the command line.
        to_text: converts a single value to text that `from_text` accepts.
    """

    annotation: Any
    from_toml: Callable[[object], object]
    from_text: Callable[[str], object]
    choices: tuple[str, ...] = ()
    is_list: bool = False
    metavar: str | None = None
    is_text: bool = True
    to_text: Callable[[Any], str] = str


def choice(*choices: str, metavar: str) -> Kind:
    """Return a kind whose values are one of a few choices."""

    def from_toml(value: object) -> str:
        if value not in choices:
            raise TypeError
        return str(value)

    def from_text(text: str) -> str:
        if text not in choices:
            raise ConfigError(f"invalid value {text!r}", nearest(text, choices) or f"choose from {', '.join(choices)}")
        return text

    return Kind(str, from_toml, from_text, choices, metavar=metavar)


def integer(least: int, most: int) -> Kind:
    """Return a kind whose values are the integers between two bounds, inclusive."""

    def from_toml(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise TypeError
        return value

    def from_text(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text) or not least <= int(text) <= most:
            raise ConfigError(f"invalid value {text!r}", f"expected a whole number from {least} to {most}")
        return int(text)

    return Kind(int, from_toml, from_text, metavar="N")


def _seconds(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]  # a number
        raise TypeError
    return float(value)  # type: ignore[arg-type]  # a number


def _seconds_from_text(text: str) -> float:
    try:
        return _seconds(float(text))
    except (TypeError, ValueError):
        raise ConfigError(f"invalid value {text!r}", "expected seconds, 0 or more") from None


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


_FLAG_TEXTS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _flag_from_text(text: str) -> bool:
    if text.lower() not in _FLAG_TEXTS:
        raise ConfigError(f"invalid value {text!r}", "expected true or false")
    return _FLAG_TEXTS[text.lower()]


def _path(value: object) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise TypeError
    return Path(value)


def _path_from_text(text: str) -> Path:
    """Return the absolute path, because the program may change its working directory."""
    if not text or "\0" in text:
        raise ConfigError(f"invalid value {text!r}", "expected a path")
    return Path(text).absolute()


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return tuple(value)


def _modules(value: object) -> tuple[str, ...]:
    names = _strings(value)
    if not all(name.strip() for name in names):
        raise TypeError
    return names


def _modules_from_text(text: str) -> tuple[str, ...]:
    if not text.strip():
        raise ConfigError(
            f"invalid value {text!r} (no module is named)", "name a module, such as acme.gpu, or omit the option"
        )
    return (text,)


def _rules(value: object) -> tuple[str, ...]:
    from syncheck.rules import catalogue  # noqa: PLC0415  --help needs none of its modules

    names = _strings(value)
    for name in names:
        if not catalogue.is_project_code(name):  # checked once the project's rules are loaded
            catalogue.matching(name)
    return names


def _rules_from_text(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError(
            f"invalid value {text!r} (no rule is named)", "write codes, prefixes (SYN1) or names, or omit the option"
        )
    return _rules(names)


def _rules_by_pattern(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise TypeError
    return tuple((pattern, _rules(names)) for pattern, names in value.items())


def _no_text(text: str) -> object:
    raise ConfigError(f"invalid value {text!r}", "set it in pyproject.toml")


def _steps(text: str) -> tuple[int, int | None]:
    """Parse "100:120" or "100:"."""
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and (not last or last.isdecimal())):
        raise ConfigError(f"invalid value {text!r} (expected FIRST:LAST)", "as in 100:120, or 100: to the end")
    if last and int(last) <= int(first):
        raise ConfigError(f"invalid value {text!r} (expected FIRST:LAST)", "LAST must be greater than FIRST")
    return int(first), int(last) if last else None


def _text_of_steps(steps: tuple[int, int | None]) -> str:
    first, last = steps
    return f"{first}:{'' if last is None else last}"


_BUDGET = "write a share of the run's time: 5% or 0.05"


def _budget(share: float, written: object) -> float:
    if math.isfinite(share) and 0 < share <= 1:
        return share
    hint = "omit the budget to check everything" if share > 1 else _BUDGET
    raise ConfigError(f"invalid value {written!r} (expected more than 0 and at most 100%)", hint)


def _budget_from_text(text: str) -> float:
    """Parse "5%" or "0.05"; "5" is ambiguous."""
    number = text.strip().removesuffix("%").strip()
    if not re.fullmatch(r"-?(\d+(\.\d*)?|\.\d+)(e-?\d+)?", number, re.IGNORECASE):
        raise ConfigError(f"invalid value {text!r}", _BUDGET)
    if "%" in text:
        return _budget(float(number) / 100, text)
    if float(number) >= 1:
        raise ConfigError(f"invalid value {text!r} (percent or a fraction?)", f"write {number}% or 0.05")
    return _budget(float(number), text)


def _text_of_budget(share: float) -> str:
    return "100%" if share == 1 else repr(share)  # a whole number needs the sign


def _budget_from_toml(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return _budget_from_text(value if isinstance(value, str) else repr(value))


class Size(int):
    """A number of bytes, formatted with a unit."""

    def __str__(self) -> str:
        unit = next((unit for unit in ("GiB", "MiB", "KiB") if self and self % _UNITS[unit] == 0), "")
        return f"{self // _UNITS[unit]}{unit}" if unit else f"{int(self)}B"


_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _size_from_text(text: str) -> Size:
    """Parse "64MiB"."""
    found = re.fullmatch(r"(\d{1,9})\s*([KMG]iB|B)", text.strip())
    if not found or not int(found[1]):
        raise ConfigError(f"invalid value {text!r}", "write a number with B, KiB, MiB or GiB: 64MiB")
    return Size(int(found[1]) * _UNITS[found[2]])


def _size_from_toml(value: object) -> Size:
    if not isinstance(value, str):
        raise TypeError
    return _size_from_text(value)


def _no_toml(value: object) -> object:
    raise TypeError(value)


_LEVELS = choice(*(level.value for level in Severity), metavar="LEVEL")
LEVEL = Kind(
    str, lambda value: Severity(str(_LEVELS.from_toml(value))), lambda text: Severity(str(_LEVELS.from_text(text))),
    _LEVELS.choices, metavar=_LEVELS.metavar,
)  # fmt: skip
SECONDS = Kind(float, _seconds, _seconds_from_text, metavar="SECONDS")
FLAG = Kind(bool, _flag, _flag_from_text)
PATH = Kind(Path, _path, _path_from_text, metavar="PATH")
STRINGS = Kind(str, _strings, lambda text: (text,), is_list=True, metavar="NAME")
MODULES = Kind(str, _modules, _modules_from_text, is_list=True, metavar="NAME")
RULES = Kind(str, _rules, _rules_from_text, is_list=True, metavar="RULES")
RULES_BY_PATTERN = Kind(str, _rules_by_pattern, _no_text, is_text=False)
STEPS = Kind(str, _no_toml, _steps, metavar="FIRST:LAST", to_text=_text_of_steps)
SIZE = Kind(str, _size_from_toml, _size_from_text, metavar="SIZE")
BUDGET = Kind(str, _budget_from_toml, _budget_from_text, metavar="SHARE", to_text=_text_of_budget)


def _schedule(text: str) -> str:
    """Return the text; the commands that use schedules parse it."""
    if not text:
        raise ConfigError(f"invalid value {text!r}", "copy a schedule from a report, or omit the option")
    return text


SCHEDULE = Kind(str, _no_toml, _schedule, metavar="SCHEDULE")
