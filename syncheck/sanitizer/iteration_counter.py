"""Detection of calls that a loop makes on every iteration, and the threshold for a hot loop."""

from syncheck.hb.ids import SiteId

HOT = 20
"""Number of iterations from which a loop is hot; warm-ups of about ten iterations are not."""
_MAX_CALLS = 500
"""Number of calls at one site after which it is ignored: it never ran on every iteration for long."""
_MIN_SHARE_ONCE = 0.25
"""Share of the active call sites that must have run exactly once for two calls to be one iteration apart."""


class IterationCounter:
    """Counts consecutive iterations with a call, from the number of launches at each call site.

    Attributes:
        launches: call site -> launches so far.
    """

    def __init__(self) -> None:
        self.launches: dict[SiteId, int] = {}
        self._before: dict[SiteId, dict[SiteId, int]] = {}
        self._iterations: dict[SiteId, int] = {}
        self._n_calls: dict[SiteId, int] = {}

    def count(self, site: SiteId, *, is_read: bool = False) -> int:
        """Note a call; return the number of consecutive iterations, up to this one, with the call; at most HOT.

        A call on every fiftieth iteration, such as logging, does not count: most launches ran fifty times in between.

        Args:
            site: the call.
            is_read: whether it launches only the copy that it waits for. That copy does not count as work: a loop that
                only copies tensors to the host, as `torch.save` does, has nothing to launch ahead.
        """
        if self._iterations.get(site, 0) >= HOT:
            return HOT
        n_calls = self._n_calls[site] = self._n_calls.get(site, 0) + 1
        if n_calls > _MAX_CALLS:
            return 0
        before, excluded = self._before.get(site, {}), site if is_read else None
        since = [now - before.get(other, 0) for other, now in self.launches.items() if other != excluded]
        launched = [times for times in since if times]
        if not launched:
            return 0
        self._before[site] = dict(self.launches)
        is_next = launched.count(1) >= _MIN_SHARE_ONCE * len(launched)
        self._iterations[site] = self._iterations.get(site, 0) + 1 if is_next else 0
        return self._iterations[site]
