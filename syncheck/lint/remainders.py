"""Intervals that miss only what the last iteration of a loop leaves running (SYN701): reported by `--strict` alone."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace

from syncheck.findings import Finding, Frame
from syncheck.hb.ids import SiteId
from syncheck.lint.interp.sites import SourceSites
from syncheck.rules import unsynchronized_timing
from syncheck.rules.model import Severity

_TEXT = "{message}, but only with what follows the last wait of the loop"


@dataclass(frozen=True, slots=True)
class Remainders:
    """The intervals between clock readings in which each iteration of a loop waits; see `LoopWaits.remainders`.

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
