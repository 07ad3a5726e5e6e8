"""Builds the order graph from the calls of a backend."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from syncheck.hb.clock import HOST
from syncheck.hb.footprint import Footprint, strided
from syncheck.hb.ids import (
    NO_ALLOCATION,
    NO_EVENT,
    NO_VIEW,
    UNKNOWN_SITE,
    Accesses,
    AllocationId,
    EventId,
    GraphId,
    SiteId,
    StreamId,
    StreamOrigin,
    ViewId,
    WaitCall,
)
from syncheck.overlap import cost
from syncheck.overlap.captures import Captures
from syncheck.overlap.ids import EdgeId, OpId, SlotId
from syncheck.overlap.knowledge import Snapshot
from syncheck.overlap.memory import Memory
from syncheck.overlap.model import (
    Allocation,
    Edge,
    EdgeKind,
    Graph,
    Need,
    Operation,
    StepKind,
)
from syncheck.sanitizer.messages import StreamInfo, View
from syncheck.semantics.copies import COPIES

NO_OP = -1


class Builder:
    """Receives the calls of `Monitor` that create work or order, with the same arguments, and builds the graph."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.launches: list[OpId] = []  # numbered as in `Monitor.times`; NO_OP for a launch in a capture
        self._knowledge = self.graph.order
        self._memory = Memory()
        self._costs: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        self._captures = Captures()
        self._footprints: list[Footprint] = []
        self._slots: list[Snapshot] = []
        self._events: dict[EventId, tuple[SlotId, StreamId, SiteId]] = {}
        self._last: dict[StreamId, OpId] = {}
        self._default: dict[int, list[StreamId]] = {}  # device -> its legacy default stream and its blocking streams
        self._legacy: set[StreamId] = set()
        self._reused: dict[StreamId, deque[tuple[StreamId, OpId, AllocationId]]] = {}
        self._recent_host_waits: list[EdgeId] = []  # since the last launch; after them, a clock may be read

    # -- definitions

    def stream(self, stream: StreamId, device: int, handle: int, site: SiteId, *, legacy: bool, blocking: bool) -> None:
        """See `Monitor`."""
        self.graph.streams[stream] = StreamInfo(device, handle, site)
        if legacy or blocking:
            self._default.setdefault(device, []).append(stream)
        if legacy:
            self._legacy.add(stream)

    def view(
        self,
        start: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        item_size: int,
        dtype: str,
        *,
        is_partial: bool = False,
    ) -> None:
        """See `Monitor`. Views are numbered from 0. A partial view counts as accessed in full."""
        del is_partial
        self._footprints.append(strided(start, tuple(sizes), tuple(strides), item_size))
        self.graph.views.append(View(tuple(sizes), item_size, dtype))

    def allocate(self, allocation: AllocationId, home: StreamId, n_bytes: int, pool: int, site: SiteId) -> None:
        """See `Monitor`."""
        del pool
        self.graph.allocations[allocation] = Allocation(home, n_bytes, site)
        self._memory.allocate(allocation, home, n_bytes, self._last.get(home, NO_OP))

    def free(self, allocation: AllocationId, site: SiteId) -> None:
        """See `Monitor`."""
        del site
        home, uses = self._memory.free(allocation)
        for stream, op in uses:
            if not self._is_needed_for_reuse(home, stream, op, allocation):
                self._reused.setdefault(home, deque(maxlen=4096)).append((stream, op, allocation))

    def record_stream(self, allocation: AllocationId, view: ViewId, stream: StreamId, site: SiteId) -> None:
        """See `Monitor`."""
        del view, site
        self._memory.record_stream(allocation, stream)

    # -- work

    def launch(self, stream: StreamId, operator: str, accesses: Accesses, site: SiteId, context: object = None) -> None:
        """See `Monitor`."""
        del context
        devices = [self._device_of(allocation) for allocation, _, _ in accesses]
        operation = Operation(operator, stream, site, *self._cost(operator, accesses, devices))
        if self._captures.is_capturing(stream):
            self._captures.launch(operation, accesses)
            self.launches.append(NO_OP)
            return
        devices_used = {device for device in devices if device >= 0}
        is_peer_copy = operator in COPIES and len(devices_used) > 1
        peers = self._null_stream_peers(stream, devices_used) if is_peer_copy else []
        for other in peers:
            self._wait(EdgeKind.NULL_STREAM, site, stream, other)
        self._run(operation, accesses)
        for other in peers:
            self._wait(EdgeKind.NULL_STREAM, site, other, stream)

    def _cost(self, operator: str, accesses: Accesses, devices: list[int]) -> tuple[int, int, int]:
        """Return nanoseconds, bytes and flops of an operator, cached because loops repeat the same operators."""
        key = (operator, *((view, is_write) for _, view, is_write in accesses), *devices)
        known = self._costs.get(key)
        if known is None:
            views = self.graph.views
            touched = [
                cost.Touched(views[view], is_write, device)
                for (_, view, is_write), device in zip(accesses, devices, strict=True)
            ]
            flops = cost.flops(operator, touched)
            known = self._costs[key] = (cost.nanoseconds(operator, touched, flops), cost.n_bytes(touched), flops)
        return known

    def _null_stream_peers(self, stream: StreamId, devices: set[int]) -> list[StreamId]:
        """Return the streams that a copy between devices is ordered with, if it runs on a legacy default stream.

        Source:
            CUDA C++ Programming Guide, "Peer-to-Peer Memory Copy": in the implicit NULL stream it does not start until
            all commands issued to either device have completed, and runs to completion before any later ones start.
        """
        if stream not in self._legacy:
            return []
        return [other for device in devices for other in self._default.get(device, ()) if other != stream]

    def _run(self, operation: Operation, accesses: Accesses) -> None:
        graph, stream = self.graph, operation.stream
        self._implicit_waits(stream, operation.site)
        op = len(graph.ops)
        self._knowledge.submit(stream)
        before: set[OpId] = set()
        for allocation, view, is_write in accesses:
            allocated = self._memory.first_touch(allocation, stream)
            found = self._memory.access(allocation, self._footprints[view], stream, op, is_write=is_write)
            self._mark_needs(found - before, stream, op, allocation, view, operation.site, is_write=is_write)
            if allocated is not None:
                self._mark(stream, *allocated, Need(allocated[1], op, allocation, view, operation.site, "memory"))
            before |= found
        graph.ops.append(operation)
        if before:
            graph.depends[op] = tuple(sorted(before))
        if accesses:
            graph.accesses[op] = accesses
        graph.steps.append((StepKind.RUN, op, stream, 0))
        self._knowledge.ran(stream, op)
        self._last[stream] = op
        self._recent_host_waits.clear()
        self.launches.append(op)

    def _device_of(self, allocation: AllocationId) -> int:
        known = self.graph.allocations.get(allocation)
        stream = self.graph.streams.get(known.home) if known is not None else None
        return stream.device if stream is not None else -1

    def launches_elided(self, stream: StreamId, count: int, site: SiteId) -> None:
        """See `Monitor`."""
        self.graph.elided += count
        self._run(Operation(f"{count} operators", stream, site, count * cost.MIN_NANOSECONDS, 0, 0), ())
        self.launches.pop()

    def host_access(self, operator: str, accesses: Accesses, site: SiteId, *, escape: bool = False) -> None:
        """See `Monitor`."""
        del operator, escape
        for allocation, view, is_write in accesses:
            if allocation in self.graph.allocations:
                found = self._memory.access(allocation, self._footprints[view], HOST, NO_OP, is_write=is_write)
                self._mark_needs(found, HOST, NO_OP, allocation, view, site, is_write=is_write)

    # -- dependencies

    def _mark_needs(
        self, before: set[OpId], actor: StreamId, op: OpId, allocation: AllocationId, view: ViewId, site: SiteId,
        *, is_write: bool,
    ) -> None:  # fmt: skip
        for prior in before:
            stream = self.graph.ops[prior].stream
            if stream != actor:
                need = Need(prior, op, allocation, view, site, "writes" if is_write else "reads")
                self._mark(actor, stream, prior, need)

    def _mark(self, actor: StreamId, stream: StreamId, op: OpId, need: Need) -> None:
        needs = self.graph.needs
        for edge in self._knowledge.chain(actor, stream, op):
            known = needs.get(edge)
            if known is None or (known.why == "memory" and need.why != "memory"):
                needs[edge] = need

    def _is_needed_for_reuse(self, home: StreamId, stream: StreamId, op: OpId, allocation: AllocationId) -> bool:
        """Mark the edges that prevent memory from being reused too early, and return whether they already exist."""
        if not self._knowledge.knows(home, stream, op):
            return False
        self._mark(home, stream, op, Need(op, NO_OP, allocation, NO_VIEW, UNKNOWN_SITE, "memory"))
        return True

    def _recheck_reused(self, home: StreamId) -> None:
        waiting = self._reused.get(home)
        if waiting:
            kept = [use for use in waiting if not self._is_needed_for_reuse(home, *use)]
            self._reused[home] = deque(kept, maxlen=4096)

    # -- order

    def _slot(self, stream: StreamId, site: SiteId) -> SlotId:
        """Record all work submitted to a stream so far."""
        self._implicit_waits(stream, site)
        slot = len(self._slots)
        self._slots.append(dict(self._knowledge.submit(stream)))
        self.graph.steps.append((StepKind.RECORD, slot, stream, 0))
        return slot

    def _edge(self, edge: Edge) -> EdgeId:
        self.graph.edges.append(edge)
        return len(self.graph.edges) - 1

    def _acquire(self, edge: Edge, slot: SlotId) -> EdgeId:
        ident = self._edge(edge)
        kind = StepKind.HOST if edge.kind.is_host else StepKind.WAIT
        self.graph.steps.append((kind, ident, edge.waiter, slot))
        if self._knowledge.acquire(edge.waiter, self._slots[slot], ident, edge.source):
            self._recheck_reused(edge.waiter)
        return ident

    def _wait(self, kind: EdgeKind, site: SiteId, stream: StreamId, other: StreamId) -> EdgeId:
        return self._acquire(Edge(kind, site, stream, other), self._slot(other, site))

    def _implicit_waits(self, stream: StreamId, site: SiteId) -> None:
        """Make the legacy default stream and the blocking streams of a device wait for each other."""
        info = self.graph.streams.get(stream)
        others = self._default.get(info.device, ()) if info is not None else ()
        if len(others) < 2 or stream not in others:
            return
        for other in others:
            is_linked = (stream in self._legacy) != (other in self._legacy)
            if is_linked and not self._knowledge.knows(stream, other, self._last.get(other, NO_OP)):
                slot = len(self._slots)
                self._slots.append(dict(self._knowledge.submit(other)))
                self.graph.steps.append((StepKind.RECORD, slot, other, 0))
                self._acquire(Edge(EdgeKind.LEGACY, site, stream, other), slot)

    def drop_event(self, event: EventId) -> None:
        """See `Monitor`."""
        self._events.pop(event, None)

    def record(self, event: EventId, stream: StreamId, site: SiteId, *rest: Any) -> None:
        """See `Monitor`."""
        del rest
        if not self._captures.record(event, stream):
            self._events[event] = (self._slot(stream, site), stream, site)

    def wait(self, event: EventId, stream: StreamId, site: SiteId, via: str, *rest: Any) -> None:
        """See `Monitor`."""
        del rest
        if self._captures.wait(event, stream) or event not in self._events:
            return
        slot, source, recorded = self._events[event]
        kind = EdgeKind.TORCH if via == WaitCall.TORCH else EdgeKind.EVENT
        if stream != source:
            self._acquire(Edge(kind, site, stream, source, event, recorded), slot)

    def wait_stream(
        self, stream: StreamId, other: StreamId, site: SiteId, origins: Sequence[str] = ("", ""), *current: Any
    ) -> None:
        """See `Monitor`."""
        del current
        if self._captures.wait_stream(stream, other) or stream == other:
            return
        self._wait(self._wait_kind(stream, other, origins), site, stream, other)

    def _wait_kind(self, stream: StreamId, other: StreamId, origins: Sequence[str]) -> EdgeKind:
        """Return the kind of a stream's wait. torch makes two devices wait for each other around a peer copy."""
        if origins[0] != StreamOrigin.BY_TORCH:
            return EdgeKind.STREAM
        streams = self.graph.streams
        if streams[stream].device == streams[other].device:
            return EdgeKind.TORCH
        last = self._last.get(other, NO_OP)
        is_after = last == len(self.graph.ops) - 1 and last != NO_OP and self.graph.ops[last].operator in COPIES
        return EdgeKind.PEER_AFTER if is_after else EdgeKind.PEER_BEFORE

    def sync_event(self, event: EventId, site: SiteId) -> None:
        """See `Monitor`."""
        if event in self._events:
            slot, source, recorded = self._events[event]
            self._host_waits(Edge(EdgeKind.HOST_EVENT, site, HOST, source, event, recorded), slot)

    def sync_stream(self, stream: StreamId, site: SiteId, *, explicit: bool) -> None:
        """See `Monitor`."""
        last = self._last.get(stream, NO_OP)
        accesses = () if explicit else self.graph.accesses.get(last, ())
        kind = EdgeKind.HOST_STREAM if explicit else self._host_wait_kind(last, accesses)
        edge = self._host_waits(Edge(kind, site, HOST, stream), self._slot(stream, site))
        if not explicit:
            wanted = [access for access in accesses if not access[2]] or accesses
            allocation, view = wanted[0][:2] if wanted else (NO_ALLOCATION, NO_VIEW)
            why = "copy" if kind is EdgeKind.HOST_COPY else "value"
            self.graph.needs[edge] = Need(last, NO_OP, allocation, view, site, why)

    def _host_wait_kind(self, last: OpId, accesses: Accesses) -> EdgeKind:
        """Return why the host waits inside an operator. For a copy of pageable memory, only the GPU side is known."""
        is_copy = last != NO_OP and self.graph.ops[last].operator in COPIES
        is_from_host = is_copy and all(is_write or self._device_of(a) < 0 for a, _, is_write in accesses)
        return EdgeKind.HOST_COPY if is_from_host else EdgeKind.HOST_READ

    def sync_device(self, device: int, site: SiteId) -> None:
        """See `Monitor`."""
        for stream, info in list(self.graph.streams.items()):
            if info.device == device and stream in self._last:
                self._host_waits(Edge(EdgeKind.HOST_DEVICE, site, HOST, stream, NO_EVENT), self._slot(stream, site))

    def _host_waits(self, edge: Edge, slot: SlotId) -> EdgeId:
        ident = self._acquire(edge, slot)
        for home in list(self._reused):
            self._recheck_reused(home)
        self._recent_host_waits.append(ident)
        return ident

    def clock(self, reading: int, site: SiteId) -> None:
        """See `Monitor`."""
        del reading
        self._mark_clock_needs(site)

    def elapsed(self, start: EventId, end: EventId, site: SiteId) -> None:
        """See `Monitor`."""
        del start, end
        self._mark_clock_needs(site)

    def _mark_clock_needs(self, site: SiteId) -> None:
        for edge in self._recent_host_waits:
            self.graph.needs.setdefault(edge, Need(NO_OP, NO_OP, NO_ALLOCATION, NO_VIEW, site, "clock"))

    # -- graphs

    def capture_begin(self, graph: GraphId, stream: StreamId, site: SiteId, pool: int = 0) -> None:
        """See `Monitor`."""
        del site, pool
        self._captures.begin(graph, stream)

    def capture_end(self, graph: GraphId) -> None:
        """See `Monitor`."""
        del graph
        self._captures.end()

    def replay(self, graph: GraphId, stream: StreamId, site: SiteId) -> None:
        """See `Monitor`."""
        operations, accesses = self._captures.captured(graph)
        known = [access for access in accesses if access[0] in self.graph.allocations]
        nanoseconds = sum(operation.nanoseconds for operation in operations)
        moved, flops = sum(o.n_bytes for o in operations), sum(o.flops for o in operations)
        self.graph.replays[len(self.graph.ops)] = len(operations)
        self._run(Operation("graph replay", stream, site, nanoseconds, moved, flops), known)
