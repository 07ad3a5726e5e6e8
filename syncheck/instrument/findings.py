"""The findings of a session whose tensors have no names yet."""

from syncheck.sanitizer.collector import PendingFinding


class NewFindings:
    """The findings that a session completed since `take` was called last.

    Attributes:
        new: in their order.
    """

    def __init__(self) -> None:
        self.new: list[PendingFinding] = []

    def add(self, finding: PendingFinding) -> None:
        """Keep a finding; what a session calls."""
        self.new.append(finding)

    def take(self) -> list[PendingFinding]:
        """Return the new findings, which are new no more."""
        new, self.new = self.new, []
        return new
