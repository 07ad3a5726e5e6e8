"""Counts the replays of a CUDA graph, to tell its results apart."""

from dataclasses import dataclass, field

from syncheck.hb.ids import UNKNOWN_SITE, SiteId


@dataclass(slots=True)
class Replays:
    """The replays of a CUDA graph so far.

    Attributes:
        count: their number.
        latest: the call site of the latest.
        taken: call site at which the program took a result -> number of replays at that time, the latest.
        reported: the call sites at which it took results that it keeps, according to a finding.
        is_picked: the graph is one of several under the keys of a dictionary: which of them is replayed is uncertain.
    """

    count: int = 0
    latest: SiteId = UNKNOWN_SITE
    taken: dict[SiteId, int] = field(default_factory=dict)
    reported: set[SiteId] = field(default_factory=set)
    is_picked: bool = False
