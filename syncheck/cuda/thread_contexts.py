"""The current device, streams, entered contexts and memory pools of each thread."""

import threading
from collections.abc import Callable

from syncheck.cuda import devices
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import Context, SiteId, StreamId
from syncheck.instrument.torch_internals import is_in_bad_fork
from syncheck.semantics.threads import ThreadState, context_of, take_lost_stream


class _Local(threading.local):
    """State of the calling thread."""

    def __init__(self) -> None:
        self.state = ThreadState()


class ThreadContexts:
    """Tracks the state of each thread.

    Attributes:
        n_checked_contexts: number of stream contexts and threads to check operators against; 0 in most programs.
        pools_in_use: number of entered memory pools over all threads.
        on_context_change: called when `n_checked_contexts` or `pools_in_use` has changed.
        n_devices: number of GPUs visible to this process.
        on_first_thread: called when a thread may fail to inherit its starter's device for the first time.
    """

    def __init__(self, reporter: Reporter, streams: Streams, n_devices: int) -> None:
        self._reporter = reporter
        self._streams = streams
        self._local = _Local()
        self.n_checked_contexts = 0
        self.pools_in_use = 0
        self.on_context_change: list[Callable[[], None]] = []
        self.n_devices = n_devices
        self.on_first_thread: list[Callable[[], None]] = []

    def add_checked_contexts(self, number: int) -> None:
        """Add to `n_checked_contexts`."""
        if number:
            self.n_checked_contexts += number
            self._notify()

    def add_pool(self, number: int) -> None:
        """Add to `pools_in_use`."""
        self.pools_in_use += number
        self._notify()

    def _notify(self) -> None:
        for act in self.on_context_change:
            act()

    @property
    def state(self) -> ThreadState:
        """The calling thread's state; its device and streams may be out of date."""
        return self._local.state

    def thread_state(self) -> ThreadState:
        """Return the calling thread's state, with its device and streams up to date."""
        state = self._local.state
        if devices.cuda.is_initialized() and not is_in_bad_fork():
            state.device = devices.current_device()
            current = {device: self._streams.current(device) for device in range(self.n_devices)}
            state.streams = {d: s for d, s in current.items() if self._streams.handle_of(s)}
        return state

    def entered(self) -> None:
        """Start checking the calling thread."""
        state = self._local.state
        if state.inherited == (0, {}):
            state.inherited = None  # nothing that could be lost
        if state.inherited is not None:
            self.add_checked_contexts(1)
            actions, self.on_first_thread = self.on_first_thread, []
            for act in actions:
                act()

    def left(self) -> None:
        """Stop checking the calling thread, which ends."""
        state = self._local.state
        self.add_checked_contexts(-bool(state.inherited is not None or state.expected_stream))
        state.inherited, state.expected_stream = None, StreamId(0)

    def context(self, stream: StreamId, device: int, other: int, site: SiteId) -> Context | None:
        """Return the context of an operator for `Monitor.launch`; report a stream that its thread did not inherit.

        Args:
            stream: the stream that the operator runs on.
            device: the stream's device.
            other: a second device involved; negative if there is none.
            site: the call site.
        """
        state = self._local.state
        if state.inherited is not None:
            expected = take_lost_stream(state, stream, self._streams)
            if expected:
                self._reporter.monitor.lost_context(stream, expected, site)
            self.add_checked_contexts(-(not expected))
        return context_of(state, device, device if other < 0 else other, self._streams)

    def pool(self, home: StreamId) -> int:
        """Return the memory pool that the calling thread allocates from; 0 is the allocator's default pool."""
        return self._local.state.pools.get(self._streams.device_of(home), 0)
