"""Registry of the syntactic rules: those that match the source without interpreting it.

It holds syncheck's own rules and those of projects. syncheck's are imported, and libcst with them, only when a file
contains one of their trigger words.
"""

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from syncheck.rules import catalogue
from syncheck.rules.model import Rule

RuleKind: TypeAlias = type[Any]
"""A subclass of `syncheck.lint.rules.base.SyntacticRule`, which is not imported here because it needs libcst."""

_RULES = Path(__file__).with_name("rules")
_of_projects: dict[str, RuleKind] = {}


@cache
def own_rules() -> tuple[Rule, ...]:
    """Return syncheck's own rules that have a module in `rules`."""
    modules = {found.name for found in pkgutil.iter_modules([str(_RULES)])}
    return tuple(rule for rule in catalogue.CATALOGUE if _module(rule) in modules)


def in_module(module: ModuleType) -> list[RuleKind]:
    """Return the rules that a module defines."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and isinstance(getattr(value, "rule", None), Rule)
    ]


def register(kind: RuleKind) -> None:
    """Add a rule of a project.

    Raises:
        ConfigError: the rule's code or name is malformed or already taken.
    """
    catalogue.register(kind.rule)
    _of_projects[kind.rule.code] = kind


def all_rules() -> tuple[Rule, ...]:
    """Return all syntactic rules."""
    return (*own_rules(), *(kind.rule for kind in _of_projects.values()))


def find(text: str) -> list[RuleKind]:
    """Return the rules that could apply to a text: those without trigger words, and those with one in the text."""
    own = [_own(rule) for rule in own_rules() if rule.concerns(text)]
    return [*own, *(kind for kind in _of_projects.values() if kind.rule.concerns(text))]


def can_matter(data: bytes) -> bool:
    """Return whether a syntactic rule could apply to a file. syncheck's own rules apply only to users of torch."""
    wanted = all_rules() if b"torch" in data else [kind.rule for kind in _of_projects.values()]
    near = [rule for rule in wanted if not rule.words or any(word in data for word in _first_words(rule))]
    if not near:
        return False
    text = data.decode("utf-8", "replace")
    return any(rule.concerns(text) for rule in near)


@cache
def _first_words(rule: Rule) -> tuple[bytes, ...]:
    """Return words of which every text that the rule applies to contains at least one."""
    return tuple(word.encode() for word in rule.first_words)


def _module(rule: Rule) -> str:
    return rule.name.replace("-", "_")


@cache
def _own(rule: Rule) -> RuleKind:
    """Return the visitor class of one of syncheck's rules: the only one that its module defines."""
    module = importlib.import_module(f"syncheck.lint.rules.{_module(rule)}")
    return next(
        value for value in vars(module).values() if isinstance(value, type) and getattr(value, "rule", 0) == rule
    )
