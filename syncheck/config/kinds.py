"""Kinds of values that a setting can have, and how each is read from TOML and from a word.

A word comes from the command line, from pytest's configuration file or from the environment.
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
        annotation: the type of one word, for the command line.
        from_toml: converts a TOML value to the setting's value; raises TypeError if it is invalid.
        from_word: converts a word to the setting's value; raises ConfigError if it is invalid.
        choices: the allowed values, if there are few.
        is_list: whether several words are allowed.
        metavar: placeholder for a word in the help.
        is_word: whether the value can be written as words, and thus on the command line.
    """

    annotation: Any
    from_toml: Callable[[object], object]
    from_word: Callable[[str], object]
    choices: tuple[str, ...] = ()
    is_list: bool = False
    metavar: str | None = None
    is_word: bool = True


def choice(*choices: str, metavar: str) -> Kind:
    """Return a kind whose values are one of a few words."""

    def from_toml(value: object) -> str:
        if value not in choices:
            raise TypeError
        return str(value)

    def from_word(word: str) -> str:
        if word not in choices:
            raise ConfigError(f"invalid value {word!r}", nearest(word, choices) or f"choose from {', '.join(choices)}")
        return word

    return Kind(str, from_toml, from_word, choices, metavar=metavar)


def integer(least: int, most: int) -> Kind:
    """Return a kind whose values are the integers between two bounds, inclusive."""

    def from_toml(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise TypeError
        return value

    def from_word(word: str) -> int:
        if not re.fullmatch(r"\d{1,18}", word) or not least <= int(word) <= most:
            raise ConfigError(f"invalid value {word!r}", f"expected a whole number from {least} to {most}")
        return int(word)

    return Kind(int, from_toml, from_word, metavar="N")


def _seconds(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]  # a number
        raise TypeError
    return float(value)  # type: ignore[arg-type]  # a number


def _seconds_of_word(word: str) -> float:
    try:
        return _seconds(float(word))
    except (TypeError, ValueError):
        raise ConfigError(f"invalid value {word!r}", "expected seconds, 0 or more") from None


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


_FLAG_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _flag_of_word(word: str) -> bool:
    if word.lower() not in _FLAG_WORDS:
        raise ConfigError(f"invalid value {word!r}", "expected true or false")
    return _FLAG_WORDS[word.lower()]


def _path(value: object) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise TypeError
    return Path(value)


def _path_of_word(word: str) -> Path:
    """Return the absolute path, because the program may change its working directory."""
    if not word or "\0" in word:
        raise ConfigError(f"invalid value {word!r}", "expected a path")
    return Path(word).absolute()


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return tuple(value)


def _rules(value: object) -> tuple[str, ...]:
    from syncheck.rules import catalogue  # noqa: PLC0415  --help needs none of its modules

    names = _words(value)
    for name in names:
        if not catalogue.is_project_code(name):  # checked once the project's rules are loaded
            catalogue.matching(name)
    return names


def _rules_of_word(word: str) -> tuple[str, ...]:
    return _rules([name.strip() for name in word.split(",") if name.strip()])


def _rules_by_pattern(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise TypeError
    return tuple((pattern, _rules(names)) for pattern, names in value.items())


def _no_word(word: str) -> object:
    raise ConfigError(f"invalid value {word!r}", "set it in pyproject.toml")


def _steps(word: str) -> tuple[int, int | None]:
    """Parse "100:120" or "100:"."""
    first, colon, last = word.partition(":")
    if not (colon and first.isdecimal() and (not last or last.isdecimal())):
        raise ConfigError(f"invalid value {word!r} (expected FIRST:LAST)", "as in 100:120, or 100: to the end")
    if last and int(last) <= int(first):
        raise ConfigError(f"invalid value {word!r} (expected FIRST:LAST)", "LAST must be greater than FIRST")
    return int(first), int(last) if last else None


_BUDGET = "write a share of the run's time: 5% or 0.05"


def _budget(share: float, written: object) -> float:
    if math.isfinite(share) and 0 < share <= 1:
        return share
    hint = "omit the budget to check everything" if share > 1 else _BUDGET
    raise ConfigError(f"invalid value {written!r} (expected more than 0 and at most 100%)", hint)


def _budget_of_word(word: str) -> float:
    """Parse "5%" or "0.05"; "5" is ambiguous."""
    number = word.strip().removesuffix("%").strip()
    if not re.fullmatch(r"-?(\d+(\.\d*)?|\.\d+)(e-?\d+)?", number, re.IGNORECASE):
        raise ConfigError(f"invalid value {word!r}", _BUDGET)
    if "%" in word:
        return _budget(float(number) / 100, word)
    if float(number) >= 1:
        raise ConfigError(f"invalid value {word!r} (percent or a fraction?)", f"write {number}% or 0.05")
    return _budget(float(number), word)


def _budget_of_toml(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return _budget_of_word(value if isinstance(value, str) else repr(value))


class Size(int):
    """A number of bytes, formatted with a unit."""

    def __str__(self) -> str:
        unit = next((unit for unit in ("GiB", "MiB", "KiB") if self and self % _UNITS[unit] == 0), "")
        return f"{self // _UNITS[unit]}{unit}" if unit else f"{int(self)}B"


_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _size_of_word(word: str) -> Size:
    """Parse "64MiB"."""
    found = re.fullmatch(r"(\d{1,9})\s*([KMG]iB|B)", word.strip())
    if not found or not int(found[1]):
        raise ConfigError(f"invalid value {word!r}", "write a number with B, KiB, MiB or GiB: 64MiB")
    return Size(int(found[1]) * _UNITS[found[2]])


def _size_of_toml(value: object) -> Size:
    if not isinstance(value, str):
        raise TypeError
    return _size_of_word(value)


def _no_toml(value: object) -> object:
    raise TypeError(value)


_LEVELS = choice(*(level.value for level in Severity), metavar="LEVEL")
LEVEL = Kind(
    str, lambda value: Severity(str(_LEVELS.from_toml(value))), lambda word: Severity(str(_LEVELS.from_word(word))),
    _LEVELS.choices, metavar=_LEVELS.metavar,
)  # fmt: skip
SECONDS = Kind(float, _seconds, _seconds_of_word, metavar="SECONDS")
FLAG = Kind(bool, _flag, _flag_of_word)
PATH = Kind(Path, _path, _path_of_word, metavar="PATH")
WORDS = Kind(str, _words, lambda word: (word,), is_list=True, metavar="NAME")
RULES = Kind(str, _rules, _rules_of_word, is_list=True, metavar="RULES")
RULES_BY_PATTERN = Kind(str, _rules_by_pattern, _no_word, is_word=False)
STEPS = Kind(str, _no_toml, _steps, metavar="FIRST:LAST")
SIZE = Kind(str, _size_of_toml, _size_of_word, metavar="SIZE")
BUDGET = Kind(str, _budget_of_toml, _budget_of_word, metavar="SHARE")


def _schedule(word: str) -> str:
    from syncheck.witness.delay import parse  # noqa: PLC0415  --help needs none

    return str(parse(word))


SCHEDULE = Kind(str, _no_toml, _schedule, metavar="SCHEDULE")
