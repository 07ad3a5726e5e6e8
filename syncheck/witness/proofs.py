"""What became of the attempt to make a race happen: plain data, for simulated and for real GPUs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

MOST_SHOWN = 3
"""Differences that a report for people shows."""


class ProofOutcome(StrEnum):
    """What came of it."""

    SHOWN = "shown"
    """The two accesses came in the other order, and values changed."""
    NOT_SHOWN = "not-shown"
    """They came in the other order, as far as that can be made, and no value changed."""
    NOT_TRIED = "not-tried"
    """It could not be tried."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as it was.

    Attributes:
        what: what it is: "what train.py:12 reads".
        usual: its value in the order of the program.
        other: its value in the other order.
    """

    what: str
    usual: str
    other: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The attempt to make a race happen.

    Attributes:
        outcome: what came of it.
        means: how the other order is made: by a schedule of simulated GPUs, or by a delay on real ones.
        tried: the schedule; "" if nothing was tried.
        reason: why it could not be tried, or how long the delay was; "" if there is nothing to say.
        differences: what changed, the most telling first.
        command: what shows it again; "" if nothing was tried.
    """

    outcome: ProofOutcome
    means: Literal["schedule", "delay"]
    tried: str = ""
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    command: str = ""

    @property
    def verdict(self) -> str:
        """The outcome in the words of its means."""
        return _VERDICTS[self.means, self.outcome]

    @property
    def in_words(self) -> str:
        """All of it in one line."""
        reason = f": {self.reason}" if self.reason else ""
        changed = "; ".join(f"{one.what}: {one.other}, not {one.usual}" for one in self.differences[:MOST_SHOWN])
        again = f"; to see it: {self.command}" if self.command else ""
        return f"Proof: {self.verdict}{reason}" + (f": {changed}" if changed else "") + again


_VERDICTS = {
    ("schedule", ProofOutcome.SHOWN): "shown: with the two accesses in the other order",
    ("schedule", ProofOutcome.NOT_SHOWN): "not shown: with the two accesses in the other order no value changes",
    ("schedule", ProofOutcome.NOT_TRIED): "could not try the other order",
    ("delay", ProofOutcome.SHOWN): "confirmed: with a delay before the earlier access",
    ("delay", ProofOutcome.NOT_SHOWN): "not reproduced: with a delay before the earlier access no value changes",
    ("delay", ProofOutcome.NOT_TRIED): "could not try a delay",
}
