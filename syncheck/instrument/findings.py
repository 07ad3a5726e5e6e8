"""Collects the findings of a session whose tensors have not been named yet."""

import contextlib
from collections import deque

from syncheck.sanitizer.collector import PendingFinding


class NewFindings:
    """The findings that a session has reported since the last call of `take`.

    Attributes:
        new: the findings, in order.
        n_added: how many the session has reported so far, with repetitions.
    """

    def __init__(self) -> None:
        self.new: deque[PendingFinding] = deque()
        self.n_added = 0

    def add(self, finding: PendingFinding) -> None:
        """Add a finding; called by the session."""
        self.new.append(finding)
        self.n_added += 1

    def take(self) -> list[PendingFinding]:
        """Remove and return the new findings."""
        findings: list[PendingFinding] = []
        with contextlib.suppress(IndexError):  # another thread may be taking them, too
            while True:
                findings.append(self.new.popleft())
        return findings
