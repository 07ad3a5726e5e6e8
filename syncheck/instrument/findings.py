"""The findings of a session whose tensors have no names yet."""

import contextlib
from collections import deque

from syncheck.sanitizer.collector import PendingFinding


class NewFindings:
    """The findings that a session completed since `take` was called last.

    Attributes:
        new: in their order.
    """

    def __init__(self) -> None:
        self.new: deque[PendingFinding] = deque()

    def add(self, finding: PendingFinding) -> None:
        """Keep a finding; what a session calls."""
        self.new.append(finding)

    def take(self) -> list[PendingFinding]:
        """Return the new findings, which are new no more."""
        taken: list[PendingFinding] = []
        with contextlib.suppress(IndexError):  # another thread may take them, too
            while True:
                taken.append(self.new.popleft())
        return taken
