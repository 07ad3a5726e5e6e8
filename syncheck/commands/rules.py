"""The rules and explain commands: the meaning of each rule, and the parts of syncheck that report it."""

from syncheck.config.settings import options_in
from syncheck.lint.engine import all_rules
from syncheck.lint.extensions import Extensions
from syncheck.ranks.compare import RULES as RANK_RULES
from syncheck.rules import catalogue, page
from syncheck.rules.model import Rule
from syncheck.sanitizer.reported import RULES as RUN_RULES


def sources(rule: Rule) -> frozenset[str]:
    """Return the parts of syncheck that report a rule: "run", "lint"."""
    by_run = {"run"} if rule in (*RUN_RULES, *RANK_RULES) else set()
    return frozenset(by_run | ({"lint"} if rule in all_rules() else set()))


def load_extensions() -> None:
    """Load the project rules named in the settings of the working directory.

    Raises:
        ConfigError: they cannot be loaded.
    """
    Extensions.of(options_in("", command="lint")).load()


def rule_table(names: str = "ALL") -> list[dict[str, object]]:
    """Return one entry per rule: code, name, level, halves (the parts that report it), summary.

    Args:
        names: the rules to list: a code, a code prefix, a name, or "ALL".

    Raises:
        ConfigError: the project's own rules cannot be loaded, or no rule matches.
    """
    load_extensions()
    return [
        {
            "code": rule.code,
            "name": rule.name,
            "level": rule.severity.value,
            "halves": sorted(sources(rule)),
            "summary": rule.summary,
        }
        for rule in catalogue.matching(names)
    ]


def is_prefix(name: str) -> bool:
    """Return whether a text is a prefix of codes, and neither a code nor a name.

    Raises:
        ConfigError: the project's own rules cannot be loaded.
    """
    load_extensions()
    wanted = name.strip().casefold()
    rules = catalogue.all_rules()
    if wanted == "all" or any(wanted in (rule.code.casefold(), rule.name) for rule in rules):
        return wanted == "all"
    return bool(wanted) and any(rule.code.casefold().startswith(wanted) for rule in rules)


def rule_page(name: str) -> str:
    """Return a rule's page as Markdown.

    Raises:
        ConfigError: no rule has this code or name; the hint names the nearest one.
    """
    load_extensions()
    rule = catalogue.find(name)
    return page.markdown(rule, sources(rule))
