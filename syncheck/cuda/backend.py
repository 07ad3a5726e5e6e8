"""The CUDA backend: assembles its parts, starts and stops them."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar

import torch

from syncheck.cuda.backward import install_backward
from syncheck.cuda.callback_order import PendingCallbacks
from syncheck.cuda.captures import Captures
from syncheck.cuda.collectives import Collectives, Handles
from syncheck.cuda.copies import Copies
from syncheck.cuda.delayed_mode import DelayedMode
from syncheck.cuda.delays import Delays
from syncheck.cuda.delays import Parts as DelayedParts
from syncheck.cuda.driver_events import DriverEvents
from syncheck.cuda.eager import install_eager
from syncheck.cuda.emptied_cache import install_emptied_cache
from syncheck.cuda.events import Events
from syncheck.cuda.gpu_trace import GpuTrace
from syncheck.cuda.gpus import CudaGpus
from syncheck.cuda.graphs import Graphs
from syncheck.cuda.hooks import Hooks
from syncheck.cuda.host import HostMemory
from syncheck.cuda.injected_work import InjectedWork
from syncheck.cuda.launch_counts import LaunchCounts
from syncheck.cuda.launches import Launches
from syncheck.cuda.library import DescribedOperators
from syncheck.cuda.memory import Memory
from syncheck.cuda.mode import WatchMode
from syncheck.cuda.native_build import extension
from syncheck.cuda.native_recorder import Callbacks, NativeRecorder
from syncheck.cuda.observations import Observations
from syncheck.cuda.open_classes import install_open_classes
from syncheck.cuda.operator_errors import OperatorErrors
from syncheck.cuda.operators import Operators, Parts
from syncheck.cuda.processes import install_processes
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.shared_gpus import shared
from syncheck.cuda.streams import Streams
from syncheck.cuda.thread_contexts import ThreadContexts
from syncheck.cuda.timed_mode import TimedMode
from syncheck.cuda.timing import Timing
from syncheck.cuda.trace_handlers import TraceHandlers
from syncheck.cuda.triton import Triton
from syncheck.hb.clock import HOST
from syncheck.hb.ids import NO_EVENT, EventId, StreamId
from syncheck.instrument.clocks import Clocks
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.higher_order import install_higher_order_operators
from syncheck.instrument.hosts import Hosts
from syncheck.instrument.kept_results import KeptResults
from syncheck.instrument.library import Library
from syncheck.instrument.locked_monitor import LockedMonitor
from syncheck.instrument.message_batches import Messages, hook_batches
from syncheck.instrument.modes import enter_mode, leave_mode
from syncheck.instrument.namer import Namer
from syncheck.instrument.patching import Patches
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.subclasses import install_subclasses
from syncheck.instrument.threads import install_threads
from syncheck.instrument.values import seed_generators
from syncheck.sanitizer.monitor import Monitor
from syncheck.semantics.threads import ThreadState
from syncheck.witness.delay import Delay
from syncheck.witness.record import request


class _Identities:
    """Implements `syncheck.instrument.namer.Identities`."""

    def __init__(self, streams: Streams, memory: Memory, events: Events) -> None:
        self.allocation_of = memory.allocation_of
        self._streams = streams
        self._events = events

    def stream_of(self, value: Any) -> StreamId:
        """Return the stream that an object represents; HOST for any other object."""
        return self._streams.known(value) if issubclass(type(value), torch.Stream) else HOST

    def event_of(self, value: Any) -> EventId:
        """Return the event that an object represents; NO_EVENT for any other object."""
        return self._events.of(value) if issubclass(type(value), torch.Event | torch.cuda.Event) else NO_EVENT


class Cuda:
    """Checks what this process does on its GPUs.

    Args:
        monitor: receives the program's operations.
        sites: captures call sites.
        note: shows the user a message about the run.
        findings: collects the findings that the session reports.
        after_finding: called after new findings.
        timed_by: creates the events that measure operators; None to measure nothing.
        most_timed: the most operators to measure.
        delay: the launch to delay; None to run the program unchanged.
        recorder: "auto", "native" or "python": the recorder for operators that cannot race.

    Attributes:
        enters_threads: threads that the program starts are checked, too.
    """

    must_see_all: ClassVar[bool] = False
    enters_threads = True

    def __init__(
        self,
        monitor: Monitor,
        sites: SiteTable,
        note: Callable[[str], None],
        findings: NewFindings,
        after_finding: Callable[[], None],
        timed_by: Callable[[], DriverEvents] | None = None,
        most_timed: int = sys.maxsize,
        delay: Delay | None = None,
        recorder: str = "auto",
    ) -> None:
        n_devices = torch.cuda.device_count()
        counts = None if delay is None else LaunchCounts(monitor)
        monitor = monitor if counts is None else counts
        self.reporter = reporter = Reporter(monitor, sites, note, findings)
        self.streams = streams = Streams(reporter)
        self.threads = threads = ThreadContexts(reporter, streams, n_devices)
        self.memory = memory = Memory(reporter, streams, threads)
        self.host = host = HostMemory(reporter, memory)
        self.pending_callbacks = pending_callbacks = PendingCallbacks()
        self.captures = captures = Captures(reporter)
        captures.on_change.append(self._captures_changed)
        self.events = Events(reporter, streams, pending_callbacks, captures)
        self.events.on_wait = partial(host.verify_all_unmodified, is_last=False)
        identities = _Identities(streams, memory, self.events)
        namer = Namer(lambda: reporter.monitor, sites, identities, after_finding)
        reporter.name_new = namer.name_new
        self.launches = launches = Launches(reporter, streams, threads, memory, namer)
        self.errors = errors = OperatorErrors(reporter, streams, pending_callbacks, captures)
        self.copies = copies = Copies(reporter, streams, memory, host, launches, errors)
        self._collectives = collectives = Collectives(reporter, streams, captures)
        self._gpus = CudaGpus(reporter, streams, memory, self.events, launches)
        self.library = Library(self._gpus)
        parts = Parts(copies, collectives, DescribedOperators(reporter, memory, self.library))
        self.operators = Operators(reporter, streams, threads, memory, host, pending_callbacks, launches, parts)
        self.gpu_trace = GpuTrace()
        streams.on_multiple_streams.append(self.gpu_trace.enable)
        self._on_mode: Callable[[Any], None] = lambda _: None
        self.timing = Timing(reporter, streams, captures, timed_by(), most_timed) if timed_by is not None else None
        if self.timing is None and delay is None:  # timing and delays each run the operators in their own mode
            self.record_natively(extension(recorder, note))
        self.delays = None if delay is None or counts is None else self._make_delays(delay, counts)
        for device in range(n_devices):
            streams.of(device, 0)

    def record_natively(self, extension: Any, device_type: str = "cuda") -> None:
        """Let the native recorder record the operators that it can.

        Args:
            extension: the recorder; None if there is none.
            device_type: the device type that the recorder treats as a GPU.
        """
        if extension is None:
            return
        recorder = NativeRecorder(extension, self.reporter, self.streams, self.threads, self.memory, self.launches)
        callbacks = Callbacks(
            self.reporter,
            self.streams,
            self.memory,
            self.events,
            self.operators,
            self._collectives,
            self.launches.gradients,
        )
        self.captures.on_change.append(recorder.update)
        recorder.attach(WatchMode, callbacks, self.gpu_trace, self.host, self.events, device_type)
        self._on_mode = recorder.watch
        self.operators.on_plan = partial(recorder.plan, copies=self.copies)
        self.operators.on_composite_tensors = recorder.give_up

    def _captures_changed(self) -> None:
        self.memory.shares_all = bool(self.captures)
        self.memory.owners.clear()

    def _make_delays(self, delay: Delay, counts: LaunchCounts) -> Delays:
        seed_generators()
        torch.cuda.manual_seed_all(0)
        reporter, streams = self.reporter, self.streams
        reporter.call_buffer.condenses = False
        work = InjectedWork(reporter, DriverEvents())
        parts = DelayedParts(reporter, streams, self.memory, self.host, self.captures)
        return Delays(delay, parts, counts, work, Observations(request(), reporter.sites, streams, work))

    # -- interface for `instrument.threads`

    @property
    def is_checking(self) -> bool:
        """Return whether the program is being checked."""
        return self.reporter.is_checking

    @is_checking.setter
    def is_checking(self, value: bool) -> None:
        self.reporter.set_checking(value=value)

    def thread_state(self) -> ThreadState:
        """Return the calling thread's state, with its device and streams up to date."""
        return self.threads.thread_state()

    def new_mode(self) -> WatchMode:
        """Return a dispatch mode for the calling thread to enter."""
        self.threads.entered()
        self.reporter.thread_entered()
        parts = (self.reporter, self.threads, self.host, self.gpu_trace, self.operators, self.errors)
        if self.delays is not None:
            delayed = DelayedMode(*parts)
            delayed.delays = self.delays
            return delayed
        if self.timing is None:
            watch = WatchMode(*parts)
            self._on_mode(watch)
            return watch
        mode = TimedMode(*parts)
        mode.timing = self.timing
        return mode

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Implements `syncheck.run.run.Backend`."""
        return self.reporter.lock

    # -- start and end

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Make the generic classes patchable, so that objects created in a block can be tracked later in it."""
        patches = Patches()
        install_open_classes(patches)
        try:
            yield
        finally:
            patches.undo()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Check the program for the duration of a block, and restore everything afterwards."""
        reporter = self.reporter
        patches = Patches()
        mode = self.new_mode()
        try:
            self._install(patches)
            reporter.set_checking(value=True)
            enter_mode(mode)
            try:
                yield
            finally:
                reporter.set_checking(value=False)
                if os.getpid() == reporter.pid:
                    leave_mode(mode)
        finally:
            if os.getpid() == reporter.pid:
                patches.undo()
                self.captures.forget()

    def _install(self, patches: Patches) -> None:
        reporter, streams, captures = self.reporter, self.streams, self.captures
        hooks = Hooks(reporter, streams, self.threads, self.memory, self.events, self.copies, self.launches, patches)
        hooks.install(self.gpu_trace)
        self.threads.on_first_thread.append(hooks.watch_default_device)
        kept_results = KeptResults(self.memory.allocation_of)
        Graphs(reporter, streams, self.memory.owners, captures, kept_results).install(patches)
        self.host.install(patches)
        install_subclasses(patches)
        install_higher_order_operators(patches)
        install_backward(reporter, streams, self.memory, self.host, self.launches, self.gpu_trace, patches)
        hosts = Hosts(LockedMonitor(reporter.call_buffer.monitor, reporter.lock))
        hosts.on_first_thread = lambda: reporter.follow_threads(hosts.monitor)
        install_threads(self, hosts, patches)
        install_processes(reporter, patches)
        self.library.install(patches)
        install_eager(reporter.note, patches)
        install_emptied_cache(reporter, patches)
        if torch.distributed.is_available():
            Handles(reporter).install(patches)
            hook_batches(patches, Messages(self._gpus))
        Triton(reporter, streams, self.memory, self.launches, patches).install()
        Clocks(reporter.notify, patches, reporter.next_reading, reporter.sites.here).install()
        TraceHandlers(reporter, streams, self.events, self.host, self.pending_callbacks, captures).install(patches)
        self.gpu_trace.install(patches)
        if self.delays is not None:
            self.delays.install(patches)

    def flush_calls(self) -> None:
        """Report everything that has happened so far."""
        if self.timing is not None:
            self.timing.read()
        self.reporter.flush_calls()

    def start_program(self) -> None:
        """Prepare for another program."""
        if self.timing is not None:
            self.timing.start_program()

    def finish(self) -> None:
        """Report what is left at the end of the program, and stop checking."""
        if self.reporter.is_checking and os.getpid() == self.reporter.pid:
            self.host.verify_all_unmodified()
            if self.timing is not None:
                self.timing.finish()
                for text in shared(self.timing.devices):
                    self.reporter.note(text)
            with self.reporter.locked_monitor():
                self.reporter.set_checking(value=False)
