"""Reports library functions and operators on real GPUs according to their descriptions."""

from typing import Any

from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.events import Events
from syncheck.cuda.launches import Launches
from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import BY_TORCH, StreamId, WaitCall
from syncheck.instrument.library import Library, TensorUse, bound_to
from syncheck.instrument.plan import tensors_in
from syncheck.semantics.library import Effect


class LibraryCalls:
    """Implements `syncheck.instrument.library.GpuCalls`."""

    def __init__(
        self, reporter: Reporter, streams: Streams, memory: Memory, events: Events, launches: Launches
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._memory = memory
        self._events = events
        self._launches = launches

    def is_checking(self) -> bool:
        """Return whether the program is being checked."""
        return not self._reporter.callbacks_suppressed

    def stream_of(self, stream: Any) -> StreamId:
        """Return the stream that an object represents; the current stream for None."""
        return self._streams.of_object(stream)

    def launch(self, operator: str, stream: StreamId, uses: list[TensorUse]) -> None:
        """Report work on a stream."""
        with self._reporter.locked_monitor():
            accesses = [a for tensor, is_write in uses if (a := self._memory.access(tensor, is_write=is_write))]
        device = self._streams.device_of(stream)
        self._launches.launch(operator, stream, device, accesses, [tensor for tensor, _ in uses])

    def wait_stream(self, stream: StreamId, other: StreamId) -> None:
        """Report that a stream waits for another stream."""
        if stream != other:
            with self._reporter.locked_monitor() as monitor:
                monitor.wait_stream(stream, other, self._reporter.site(), BY_TORCH)

    def wait_event(self, stream: StreamId, event: Any) -> None:
        """Report that a stream waits for an event."""
        with self._reporter.locked_monitor() as monitor:
            monitor.wait(self._events.of(event), stream, self._reporter.site(), WaitCall.TORCH)

    def sync_stream(self, stream: StreamId) -> None:
        """Report that the host waits for a stream."""
        with self._reporter.locked_monitor() as monitor:
            monitor.sync_stream(stream, self._reporter.site(), explicit=False)


class DescribedOperators:
    """Runs operators that a library describes, and reports them according to the description."""

    def __init__(self, reporter: Reporter, memory: Memory, library: Library) -> None:
        self._reporter = reporter
        self._memory = memory
        self._library = library

    def special(self, effect: Effect) -> tuple[Any, Any]:
        """Return a predicate on the arguments, and the handler, as in `Copies.specials`."""

        def run(dispatch: DispatchPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with self._reporter.suppressed():
                result = dispatch.call(*args, **kwargs)
            with self._reporter.guard():
                self._memory.begin_results(tensors_in(result))
                self._library.report(effect, bound_to(effect, args, kwargs), result)
            return result

        return lambda args, kwargs: True, run  # noqa: ARG005  for all arguments
