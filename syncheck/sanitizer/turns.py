"""Which calls a loop makes on every iteration, and how often that counts as hot."""

from syncheck.hb.ids import SiteId

HOT = 20
"""Iterations from which a loop is hot: warm-ups, of some ten, are not."""
_MOST_LOOKED_AT = 500
"""Calls of one place after which it counts for none: it was never on every iteration for long."""
_ONCE = 0.25
"""The part of the call sites that ran since, and ran once, from which two calls lie one iteration apart."""


class Turns:
    """Counts launches by call site.

    Attributes:
        launches: call site -> launches so far.
    """

    def __init__(self) -> None:
        self.launches: dict[SiteId, int] = {}
        self._before: dict[SiteId, dict[SiteId, int]] = {}
        self._turns: dict[SiteId, int] = {}
        self._looked_at: dict[SiteId, int] = {}

    def count(self, site: SiteId, *, is_read: bool = False) -> int:
        """Note a call; return on how many iterations in a row, to this one, a loop has made it; at most HOT.

        A call on every fiftieth iteration, to log something, is none of them: most launches ran fifty times since.

        Args:
            site: the call.
            is_read: all that it launched is the copy that it waits for, which is no work of an iteration: a loop
                that only brings tensors to the host, as `torch.save` does, has nothing to launch ahead.
        """
        if self._turns.get(site, 0) >= HOT:
            return HOT
        looked_at = self._looked_at[site] = self._looked_at.get(site, 0) + 1
        if looked_at > _MOST_LOOKED_AT:
            return 0
        before, own = self._before.get(site, {}), site if is_read else None
        since = [now - before.get(launched, 0) for launched, now in self.launches.items() if launched != own]
        ran = [times for times in since if times]
        if not ran:
            return 0
        self._before[site] = dict(self.launches)
        is_next = ran.count(1) >= _ONCE * len(ran)
        self._turns[site] = self._turns.get(site, 0) + 1 if is_next else 0
        return self._turns[site]
