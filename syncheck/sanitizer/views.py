"""Views: views of the same bytes share a footprint in the engine, but keep their shape and type for reports."""

from syncheck.hb.engine import Engine, Race
from syncheck.hb.footprint import Footprint, strided
from syncheck.hb.ids import Accesses, ViewId
from syncheck.sanitizer.messages import View


class Views:
    """All views of a program, by id.

    Args:
        engine: assigns the ids.
        described: receives the description of each view, at the index of its id.
    """

    def __init__(self, engine: Engine, described: list[View]) -> None:
        self._engine = engine
        self._described = described
        self._ids: dict[tuple[Footprint, View], ViewId] = {}
        self._footprints: list[Footprint] = []
        self._first: dict[Footprint, ViewId] = {}  # footprint -> the first view of it

    def add(
        self,
        start: int,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        item_size: int,
        dtype: str,
        *,
        is_partial: bool = False,
    ) -> ViewId:
        """See `Monitor.view`."""
        footprint = strided(start, sizes, strides, item_size, is_partial=is_partial)
        return self.intern(footprint, View(sizes, item_size, dtype))

    def intern(self, footprint: Footprint, view: View) -> ViewId:
        """Return the id of a view of a footprint; equal views have equal ids."""
        known = self._ids.get((footprint, view))
        if known is not None:
            return known
        ident = self._ids[footprint, view] = self._engine.add_view(footprint)
        self._first.setdefault(footprint, ident)
        self._footprints.append(footprint)
        self._described.append(view)
        return ident

    def of(self, footprint: Footprint) -> ViewId:
        """Return the first view of a footprint."""
        return self._first[footprint]

    def covers_exactly(self, view: ViewId, footprint: Footprint) -> bool:
        """Return whether a view has exactly the given footprint."""
        return self._footprints[view] == footprint

    def used(self, race: Race, accesses: Accesses) -> ViewId:
        """Return the view through which the current access of a race was made."""
        wanted = (race.allocation, race.current.footprint)
        return next((v for a, v, _ in accesses if (a, self._footprints[v]) == wanted), self.of(race.current.footprint))


def without_covered_reads(races: list[Race]) -> list[Race]:
    """Drop races of reads whose bytes the same op also writes, because the race of the write covers them."""
    written = {(r.allocation, r.current.footprint, r.prior.epoch) for r in races if r.current.is_write}
    if not written:
        return races
    return [
        r for r in races
        if r.current.is_write or (r.allocation, r.current.footprint, r.prior.epoch) not in written
    ]  # fmt: skip
