"""Intervals that miss only a part of their work (SYN701)."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from syncheck.findings import Finding, Frame
from syncheck.hb.ids import SiteId
from syncheck.lint.interp.sites import SourceSites
from syncheck.rules import unsynchronized_timing
from syncheck.rules.model import Severity

_TEXT = "{message}, but only with what follows the last wait"


@dataclass(frozen=True, slots=True)
class Remainders:
    """Intervals between clock readings that miss little of their work.

    Attributes:
        intervals: the first and last readings.
        are_reported: whether findings about them are reported.
    """

    intervals: Set[tuple[Frame, Frame]] = frozenset()
    are_reported: bool = False

    @classmethod
    def of(
        cls, intervals: Iterable[tuple[SiteId, SiteId]], sites: SourceSites, *, are_reported: bool = False
    ) -> "Remainders":
        """Return the intervals between readings at some call sites."""
        frames = frozenset((sites.location(first).frame, sites.location(last).frame) for first, last in intervals)
        return cls(frames, are_reported)

    def include(self, finding: Finding) -> bool:
        """Return whether a finding is about such intervals only."""
        if finding.rule != unsynchronized_timing.RULE:
            return False
        starts = [location.frame for location in finding.related[1:]]
        return bool(starts) and all((start, finding.location.frame) in self.intervals for start in starts)

    def reported(self, finding: Finding) -> Iterator[Finding]:
        """Yield a finding about such intervals as it is reported, if it is: a warning that states what is missed."""
        if self.are_reported:
            message = _TEXT.format(message=finding.message)
            yield replace(finding.with_example(), message=message, level=Severity.WARNING)


class Missed(NamedTuple):
    """What intervals between clock readings miss.

    Attributes:
        collective: those that miss one collective; see `RecentWork.ends`.
        part: those that miss only work after a wait for other work.
        little: those that miss only short work after a wait for long work, or what one iteration of a loop leaves.
    """

    collective: Remainders = Remainders()
    part: Remainders = Remainders()
    little: Remainders = Remainders()
