"""Events that are waited for by the stream that recorded them, which orders nothing (SYN407)."""

from syncheck.hb.ids import SiteId, StreamId
from syncheck.lint.interp.values import Event, Stream
from syncheck.rules import event_waits_for_itself
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.messages import EventCode, EventRef, StreamRef, Text


class SelfWaits:
    """Reports a stream's waits for its own events, unless something else waits for the event in the end.

    Attributes:
        fetching: the streams that have copied to the host: there, the host was meant to wait.

    Args:
        collector: collects the findings.
    """

    def __init__(self, collector: Collector) -> None:
        self.fetching: set[StreamId] = set()
        self._collector = collector

    def note(self, event: Event, waiter: Stream, site: SiteId, function: str, *, is_followed: bool) -> None:
        """Record that a stream waits for a recorded event.

        Args:
            event: the event.
            waiter: the stream that waits.
            site: the call.
            function: the function that contains the call.
            is_followed: whether the branch is taken, rather than run only for what it orders.
        """
        if event.recorded is None:
            return
        stream, recorded, recorder = event.recorded
        if stream not in self.fetching:
            return
        if stream != waiter.ident or recorder != function:
            event.is_useful = True
        elif is_followed:
            facts: dict[str, Text] = {"stream": (StreamRef(stream),), "event": (EventRef(event.ident),)}
            related: list[tuple[SiteId, Text]] = [(recorded, ("it is recorded here",))]
            advice: Text = ("if the host is to wait, call `", EventCode(event.ident), ".synchronize()`")
            pending = PendingFinding(event_waits_for_itself.RULE, site, facts, related, advice)
            pending.superseded = lambda: event.is_useful or event.escaped
            self._collector.add(pending)
