"""All rules of syncheck, sorted by code; commands that list or explain rules use this module."""

import difflib
import pkgutil
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from syncheck.errors import ConfigError
from syncheck.rules.model import Rule

_NOT_RULES = frozenset({"catalogue", "model", "page"})
_PAGES = "https://syncheck.github.io/syncheck/rules/"
_CODE = re.compile(r"(?!SYN)[A-Z][A-Z_]*[0-9]+")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def _discovered() -> tuple[Rule, ...]:
    modules = (found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)]))
    rules = (import_module(f"syncheck.rules.{name}").RULE for name in modules if name not in _NOT_RULES)
    return tuple(sorted(rules, key=lambda rule: rule.code))


CATALOGUE: tuple[Rule, ...] = _discovered()
"""The built-in rules: `RULE` of each module of this package."""
_of_projects: dict[str, Rule] = {}


def register(rule: Rule) -> None:
    """Add a project's own rule.

    Raises:
        ConfigError: its code or name is malformed, or is that of another rule.
    """
    if not _CODE.fullmatch(rule.code):
        hint = 'use capital letters and a number, such as "ACME1"; codes that start with SYN are reserved'
        raise ConfigError(f"{rule.code!r} is not a valid code for a project's rule", hint)
    if not _NAME.fullmatch(rule.name):
        raise ConfigError(
            f"{rule.name!r} is not a valid rule name", "use lower case and hyphens, as in copy-off-copy-stream"
        )
    for other in all_rules():
        if other != rule and rule.code != other.code and rule.name == other.name:
            raise ConfigError(f"{rule.code} and {other.code} are both named {rule.name}", "rename one of them")
    if _of_projects.setdefault(rule.code, rule) != rule:
        raise ConfigError(f"two rules have the code {rule.code}", "change the code of one of them")


def is_project_code(text: str) -> bool:
    """Return whether a text is a valid code for a project's rule, whether or not that rule is loaded."""
    return _CODE.fullmatch(text) is not None


def url_of(rule: Rule) -> str:
    """Return the URL of a rule's page; "" for a project's rule."""
    return f"{_PAGES}{rule.code}/" if rule in CATALOGUE else ""


def codes_of(names: Iterable[str]) -> frozenset[str]:
    """Return the codes of the rules that the given settings select: see `matching`.

    While no project's rules are loaded, codes of such rules are ignored.

    Raises:
        ConfigError: no rule matches a name.
    """
    known = [name for name in names if _of_projects or not is_project_code(name)]
    return frozenset(rule.code for name in known for rule in matching(name))


_LIKENESS_OF_CODES = 0.8
"""Least similarity of a mistyped code: any two codes share three letters, and often a digit."""


def all_rules() -> tuple[Rule, ...]:
    """Return all rules, with the project's rules last."""
    return (*CATALOGUE, *_of_projects.values())


def find(text: str) -> Rule:
    """Return the rule with this code or name, ignoring case.

    Raises:
        ConfigError: no rule has it; the hint names the nearest one.
    """
    wanted = text.strip().casefold()
    for rule in all_rules():
        if wanted in (rule.code.casefold(), rule.name):
            return rule
    raise ConfigError(f"no rule has the code or name {text!r}", _nearest(wanted))


def matching(prefix: str) -> tuple[Rule, ...]:
    """Return the rules that a setting selects: by code prefix, by name, or "ALL".

    Returns:
        At least one rule, sorted by code.

    Raises:
        ConfigError: no rule matches; the hint names the nearest one.
    """
    wanted = prefix.strip().casefold()
    if wanted == "all":
        return all_rules()
    rules = tuple(r for r in all_rules() if r.code.casefold().startswith(wanted) or r.name == wanted)
    # Every code starts with the empty text, which must not select everything.
    if not wanted or not rules:
        families = sorted({rule.code[:4] for rule in CATALOGUE})
        raise ConfigError(f"no rule matches {prefix!r}", _nearest(wanted, families))
    return rules


def _nearest(wanted: str, families: Iterable[str] = ()) -> str:
    codes = {rule.code.casefold(): rule.code for rule in all_rules()}
    others = {name.casefold(): name for name in (*(rule.name for rule in all_rules()), *families)}
    close = difflib.get_close_matches(wanted, codes, n=1, cutoff=_LIKENESS_OF_CODES)
    close = close or difflib.get_close_matches(wanted, others, n=1)
    return f"did you mean {(codes | others)[close[0]]}?" if close else "`syncheck rules` lists all codes and names"
