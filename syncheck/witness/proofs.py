"""Outcome of the attempt to make a race happen: plain data, for simulated and real GPUs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

MAX_SHOWN = 3
"""Number of differences shown in a report for people."""


class ProofOutcome(StrEnum):
    """Outcome of the attempt."""

    SHOWN = "shown"
    """The two accesses occurred in the other order, and values changed."""
    NOT_SHOWN = "not-shown"
    """They occurred in the other order, as far as it can be enforced, and no value changed."""
    NOT_TRIED = "not-tried"
    """The other order could not be tried."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that changed.

    Attributes:
        what: its description, such as "what train.py:12 reads".
        usual: its value in program order.
        other: its value in the other order.
    """

    what: str
    usual: str
    other: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The attempt to make a race happen.

    Attributes:
        outcome: the outcome.
        means: how the other order is enforced: with a schedule of simulated GPUs, or with a delay on real ones.
        tried: the schedule or delay; "" if nothing was tried.
        reason: why it could not be tried, or how long the delay was; "" if not applicable.
        differences: the changes, the most significant first.
        command: a command that reproduces it; "" if nothing was tried.
    """

    outcome: ProofOutcome
    means: Literal["schedule", "delay"]
    tried: str = ""
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    command: str = ""

    @property
    def verdict(self) -> str:
        """The outcome in words, depending on the means."""
        return _VERDICTS[self.means, self.outcome]

    @property
    def summary(self) -> str:
        """The whole proof in one line."""
        reason = f": {self.reason}" if self.reason else ""
        changed = "; ".join(f"{one.what}: {one.other}, not {one.usual}" for one in self.differences[:MAX_SHOWN])
        command = f"; reproduce with: {self.command}" if self.command else ""
        return f"Proof: {self.verdict}{reason}" + (f": {changed}" if changed else "") + command


_VERDICTS = {
    ("schedule", ProofOutcome.SHOWN): "shown by running the two accesses in the other order",
    ("schedule", ProofOutcome.NOT_SHOWN): "not shown: no value changes with the two accesses in the other order",
    ("schedule", ProofOutcome.NOT_TRIED): "could not try the other order",
    ("delay", ProofOutcome.SHOWN): "confirmed with a delay before the earlier access",
    ("delay", ProofOutcome.NOT_SHOWN): "not reproduced: no value changes with a delay before the earlier access",
    ("delay", ProofOutcome.NOT_TRIED): "could not try a delay",
}
