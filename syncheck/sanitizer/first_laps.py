"""Waits that do nothing the first time, because the event is recorded later in the same loop or function."""

from collections.abc import Iterable

from syncheck.hb.ids import SiteId
from syncheck.sanitizer.monitor import Sites
from syncheck.source.repetition import may_run_again


class FirstLaps:
    """The waits for events that were recorded only later."""

    def __init__(self) -> None:
        self._known: dict[SiteId, tuple[SiteId, SiteId]] = {}  # wait -> the calls that recorded and created the event

    def note(self, waits: Iterable[SiteId], recorded: SiteId, made: SiteId) -> None:
        """Note the first record of an event, after waits for it."""
        self._known |= dict.fromkeys(waits, (recorded, made))

    def includes(self, site: SiteId, sites: Sites) -> bool:
        """Return whether a loop or function contains a wait and the record after it, but not the event's creation.

        If it runs again, the wait is for that record: that of a buffer which each iteration uses again, for example.
        """
        if site not in self._known:
            return False
        waited, recorded, made = (sites.lines_of(one)[0] for one in (site, *self._known[site]))
        if waited.scopes is None or waited.path != recorded.path:
            return False
        outside = made.number if made.path == waited.path else 0
        return may_run_again(waited.scopes.tree, (waited.number, recorded.number), outside)
