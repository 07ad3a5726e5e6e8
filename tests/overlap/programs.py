"""Small programs as calls of a backend, with operations of given durations."""

from syncheck.hb.ids import BY_TORCH, AllocationId, EventId, SiteId, StreamId, WaitCall
from syncheck.overlap.analysis import Analysis, analyze
from syncheck.overlap.builder import Builder
from syncheck.overlap.model import Graph

HOST = StreamId(0)


class Program:
    """Makes backend calls, each with a call site of its own. Methods that create an edge return its site."""

    def __init__(self) -> None:
        self.builder = Builder()
        self._n_streams = self._n_allocations = self._n_sites = self._n_events = 0
        self.builder.view(0, (256,), (1,), 4, "float32")

    @property
    def graph(self) -> Graph:
        return self.builder.graph

    def analysis(self) -> Analysis:
        return analyze(self.graph)

    def site(self) -> SiteId:
        self._n_sites += 1
        return SiteId(self._n_sites)

    def stream(self, device=0, *, is_default=False) -> StreamId:
        self._n_streams += 1
        handle = 0 if is_default else self._n_streams
        self.builder.stream(StreamId(self._n_streams), device, handle, SiteId(0), legacy=is_default, blocking=False)
        return StreamId(self._n_streams)

    def tensor(self, home=HOST) -> AllocationId:
        self._n_allocations += 1
        self.builder.allocate(AllocationId(self._n_allocations), home, 1024, 0, self.site())
        return AllocationId(self._n_allocations)

    def run(self, stream, us, reads=(), writes=(), operator="aten::work") -> int:
        """Launch an operation and return its number."""
        accesses = tuple((a, 0, False) for a in reads) + tuple((a, 0, True) for a in writes)
        self.builder.launch(stream, operator, accesses, self.site())
        ops = self.graph.ops
        ops[-1] = ops[-1]._replace(nanoseconds=us * 1000)
        return len(ops) - 1

    def wait(self, stream, other) -> SiteId:
        site = self.site()
        self.builder.wait_stream(stream, other, site)
        return site

    def torch_waits(self, stream, other) -> None:
        self.builder.wait_stream(stream, other, self.site(), BY_TORCH)

    def event(self, stream) -> EventId:
        self._n_events += 1
        self.builder.record(EventId(self._n_events), stream, self.site())
        return EventId(self._n_events)

    def wait_event(self, stream, event) -> SiteId:
        site = self.site()
        self.builder.wait(event, stream, site, WaitCall.STREAM_WAIT_EVENT)
        return site

    def synchronize(self, device=0) -> SiteId:
        site = self.site()
        self.builder.sync_device(device, site)
        return site
