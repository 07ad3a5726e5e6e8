"""Advice on streams without benefit: their work overlaps with nothing, or a copy queues behind compute."""

from functools import partial

from syncheck.hb.engine import Engine
from syncheck.hb.ids import SiteId, StreamId
from syncheck.rules import no_overlap, serialized_peer_copy, stream_pool_aliased
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.iteration_counter import HOT
from syncheck.sanitizer.messages import StreamRef, Text
from syncheck.sanitizer.sync_history import SyncHistory
from syncheck.semantics.copies import COPIES

_MAX_EDGES = 4
"""Maximum number of ordering calls listed for one stream."""


class OverlapAdvice:
    """Tracks the distribution of work over streams.

    Args:
        engine: the happens-before engine.
        collector: receives the findings.
        history: the calls that ordered the work.
    """

    def __init__(self, engine: Engine, collector: Collector, history: SyncHistory) -> None:
        self._engine = engine
        self._collector = collector
        self._history = history
        self._latest = StreamId(0)
        self._first: dict[StreamId, SiteId] = {}  # stream -> call site of its first work
        self._visits: dict[StreamId, int] = {}  # how often launches switched to it
        self._edges: dict[StreamId, dict[tuple[SiteId, Text], None]] = {}  # calls that order its work with others
        self._overlapping: set[StreamId] = set()
        self._reported: set[StreamId] = set()
        self._computing: set[StreamId] = set()
        self._peer: tuple[StreamId, StreamId, SiteId] | None = None  # torch's wait before a copy between devices
        self._copies: dict[SiteId, int] = {}
        self._queued: set[SiteId] = set()  # copies that were reported
        self._objects: dict[int, StreamId] = {}
        self._holders: dict[StreamId, dict[int, SiteId]] = {}

    # -- SYN803

    def launching(self, stream: StreamId, operator: str, site: SiteId) -> None:
        """Note that an operator is about to be launched; called before the engine is notified."""
        if stream != self._latest:
            self._switch(stream, site)
            self._latest = stream
        if operator in COPIES:
            self._note_copy(site)
        elif stream not in self._computing:
            self._computing.add(stream)

    def _switch(self, stream: StreamId, site: SiteId) -> None:
        self._first.setdefault(stream, site)
        self._visits[stream] = self._visits.get(stream, 0) + 1
        engine = self._engine
        if not self._latest:
            return
        if engine.stream_covers(stream, engine.now(self._latest)):
            self._note_edge(stream)
            return  # by transitivity, it is also ordered after everything that the latest one followed
        self._overlapping |= {stream, *engine.unordered(stream)} & set(self._first)

    def _note_edge(self, stream: StreamId) -> None:
        """Store the call that ordered a stream after the previous one, in the last iterations before a report."""
        before = self._latest
        if not {HOT - 1, HOT} & {self._visits[stream], self._visits[before]}:
            return
        device = self._collector.names.streams[before].device
        site, is_host = self._history.ordering(stream, self._engine.now(before), device)
        text: Text = ("the host waits here",) if is_host else (StreamRef(stream), " waits here for ", StreamRef(before))
        for concerned in (stream, before):
            self._edges.setdefault(concerned, {})[site, text] = None

    def report(self) -> None:
        """Report the program's streams that were used repeatedly and have not overlapped with any other."""
        streams = self._collector.names.streams
        for stream, visits in self._visits.items():
            info = streams[stream]
            is_alone = stream not in self._overlapping and stream not in self._reported
            if visits >= HOT and is_alone and info.handle and not info.is_internal:
                advice: Text = (
                    "wait as late as possible, directly before the result is used; `syncheck overlap` shows what each "
                    "wait costs",
                )
                facts: dict[str, Text] = {"stream": (StreamRef(stream),)}
                pending = PendingFinding(
                    no_overlap.RULE, self._first[stream], facts, list(self._edges.get(stream, ()))[:_MAX_EDGES], advice
                )
                pending.superseded = partial(self._is_known_better, stream)
                self._reported.add(stream)
                self._collector.add(pending)

    def _is_known_better(self, stream: StreamId) -> bool:
        """Return whether a stream overlaps after all, or carries copies reported as SYN804."""
        return stream in self._overlapping or self._first[stream] in self._queued

    # -- SYN804

    def torch_waits(self, stream: StreamId, other: StreamId, site: SiteId) -> None:
        """Note that torch makes a stream wait for one of another device, as before and after a copy between them."""
        streams = self._collector.names.streams
        if streams[stream].device != streams[other].device:
            self._peer = (stream, other, site)

    def _note_copy(self, site: SiteId) -> None:
        if self._peer is None or self._peer[2] != site:
            return
        sender, receiver, _ = self._peer
        self._peer = None
        busy = next((stream for stream in (sender, receiver) if stream in self._computing), None)
        iterations = self._copies[site] = self._copies.get(site, 0) + 1
        if busy is None or iterations < HOT:
            return
        streams = self._collector.names.streams
        facts: dict[str, Text] = {
            "source": (f"cuda:{streams[sender].device}",),
            "destination": (f"cuda:{streams[receiver].device}",),
            "stream": (StreamRef(busy),),
        }
        advice: Text = (
            "make side streams of both devices current at {line}; make the users of the result wait for them",
        )
        self._queued.add(site)
        self._collector.add(PendingFinding(serialized_peer_copy.RULE, site, facts, [], advice))

    # -- SYN808

    def stream_object(self, ident: int, stream: StreamId, site: SiteId) -> None:
        """Note that the program created a stream object; other objects may share its stream of torch's pool."""
        holders = self._holders.setdefault(stream, {})
        if holders:
            first = next(iter(holders.values()))
            facts: dict[str, Text] = {"stream": (StreamRef(stream),)}
            related: list[tuple[SiteId, Text]] = [(first, ("the same stream was handed out here",))]
            advice: Text = ("create fewer streams and keep them; torch has 32 per device and priority",)
            self._collector.add(PendingFinding(stream_pool_aliased.RULE, site, facts, related, advice))
        holders[ident] = site
        self._objects[ident] = stream

    def has_object(self, stream: StreamId) -> bool:
        """Return whether a stream has a live object in the program."""
        return bool(self._holders.get(stream))

    def stream_object_destroyed(self, ident: int) -> None:
        """Note that a stream object was destroyed."""
        stream = self._objects.pop(ident, None)
        if stream is not None:
            self._holders[stream].pop(ident, None)


RULES = (no_overlap.RULE, serialized_peer_copy.RULE, stream_pool_aliased.RULE)
"""The rules that this module reports."""
