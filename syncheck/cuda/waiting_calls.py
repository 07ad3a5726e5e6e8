"""Choice of the monitor calls that may wait in the native recorder's log."""

_MOST_WAITING = 32
"""Number of calls in a row that may wait, after the same number that did not."""


class WaitingCalls:
    """Decides which calls may wait, so that several steps of a program are examined at once.

    Memory that was allocated and freed meanwhile need not be examined at all. Findings name the objects of the frames
    that run when they are made. So nothing waits until many calls in a row have led to no finding.
    """

    def __init__(self) -> None:
        self._n_findings = 0
        self._n_quiet = 0  # calls since the last finding
        self._n_waiting = 0  # calls since the last one that did not wait

    def may_wait(self, n_findings: int) -> bool:
        """Return whether a call may wait.

        Args:
            n_findings: the number of findings made so far.
        """
        if n_findings != self._n_findings:
            self._n_findings, self._n_quiet = n_findings, 0
        self._n_quiet += 1
        self._n_waiting += 1
        if self._n_quiet > _MOST_WAITING and self._n_waiting <= _MOST_WAITING:
            return True
        self._n_waiting = 0
        return False
