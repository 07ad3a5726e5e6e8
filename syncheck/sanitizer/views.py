"""Views: the same bytes are one footprint for the engine, and keep their own shape and type in a report."""

from collections.abc import Sequence
from typing import TypeAlias

from syncheck.hb.engine import Access, Engine, Race
from syncheck.hb.footprint import Footprint
from syncheck.sanitizer.wording import View

Accesses: TypeAlias = Sequence[tuple[int, int, bool]]
"""(allocation, view, is_write) of one launch."""


class Views:
    """All views of a program, by id.

    Args:
        engine: gets each footprint once.
        described: gets what each view looks like, at its id.
    """

    def __init__(self, engine: Engine, described: list[View]) -> None:
        self._engine = engine
        self._described = described
        self._ids: dict[tuple[Footprint, View], int] = {}
        self._footprint_of: list[int] = []  # view -> the engine's footprint
        self._known: dict[Footprint, int] = {}  # footprint -> the engine's id of it
        self.first: list[int] = []  # the engine's footprint -> the first view of it

    def intern(self, footprint: Footprint, view: View) -> int:
        """Return the id of a view of some bytes, equal for equal views."""
        known = self._ids.get((footprint, view))
        if known is not None:
            return known
        ident = self._ids[footprint, view] = len(self._footprint_of)
        if footprint not in self._known:
            self._known[footprint] = self._engine.add_footprint(footprint)
            self.first.append(ident)
        self._footprint_of.append(self._known[footprint])
        self._described.append(view)
        return ident

    def footprint(self, view: int) -> int:
        """Return the engine's footprint of a view."""
        return self._footprint_of[view]

    def footprints(self, accesses: Accesses) -> list[Access]:
        """Return accesses with the engine's footprints in place of views."""
        footprint_of = self._footprint_of
        return [(allocation, footprint_of[view], is_write) for allocation, view, is_write in accesses]

    def of(self, footprint: Footprint) -> int:
        """Return the first view of some bytes."""
        return self.first[self._known[footprint]]

    def used(self, race: Race, accesses: Accesses) -> int:
        """Return the view through which the current access of a race was made."""
        first = self.of(race.current.footprint)
        wanted = (race.allocation, self._footprint_of[first])
        return next((v for a, v, _ in accesses if (a, self._footprint_of[v]) == wanted), first)
