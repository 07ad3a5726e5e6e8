"""The data of a rule, shared by the linter and the sanitizer."""

import re
from dataclasses import dataclass
from enum import StrEnum
from string import Formatter


class Severity(StrEnum):
    """Severity of a finding, from worst to mildest."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"

    @property
    def rank(self) -> int:
        """0 for the worst severity; larger is milder."""
        return list(Severity).index(self)


class Family(StrEnum):
    """Family of rules, identified by the first digit of a rule's code."""

    RACE = "1"
    LIFETIME = "2"
    HOST = "3"
    EVENT = "4"
    DEVICE = "5"
    COLLECTIVE = "6"
    TIMING = "7"
    PERFORMANCE = "8"
    GRAPH = "9"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of mistake, declared once for the linter and the sanitizer.

    Attributes:
        code: "SYN" and three digits, never reused; codes of a project's own rules start with other letters:
            "ACME1".
        name: kebab-case name that states the flaw.
        severity: default level of its findings.
        message: one sentence with `{placeholders}`, which are the facts that a detector must supply.
        doc: the module's docstring: a summary line, then the headings "Why it matters", "Fix" and "Source".
        words: for a syntactic rule: the linter checks only definitions that contain one of these texts; of a
            tuple, all
            of its texts.
    """

    code: str
    name: str
    severity: Severity
    message: str
    doc: str
    words: tuple[str | tuple[str, ...], ...] = ()

    def concerns(self, text: str) -> bool:
        """Return whether a syntactic rule can find anything in a text."""
        absent: set[str] = set()  # cached, because many alternatives share a word
        for alternatives in self.words:
            for word in (alternatives,) if isinstance(alternatives, str) else alternatives:
                if word in absent or word not in text:
                    absent.add(word)
                    break
            else:
                return True
        return not self.words

    @property
    def first_words(self) -> tuple[str, ...]:
        """Words of which every text that the rule concerns contains at least one."""
        return tuple(dict.fromkeys(words if isinstance(words, str) else words[0] for words in self.words))

    @property
    def family(self) -> Family | None:
        """The family given by the code's first digit; None for a project's own rule."""
        return Family(self.code[3]) if self.code.startswith("SYN") else None

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.doc.strip().splitlines()[0]

    @property
    def facts(self) -> frozenset[str]:
        """Names of the placeholders in `message`."""
        return frozenset(name for _, name, _, _ in Formatter().parse(self.message) if name)

    def section(self, heading: str) -> str:
        """Return the text under "## heading"; "" if the page has no such heading."""
        match = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", self.doc, re.MULTILINE | re.DOTALL)
        return match.group(1).strip() if match else ""
