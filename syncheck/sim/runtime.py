"""Runtime shared by all parts of the simulator: virtual GPUs, their memory, object names and capture restrictions."""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Protocol

import torch

from syncheck.hb.clock import HOST
from syncheck.hb.ids import (
    NO_EVENT,
    AllocationId,
    EventId,
    GraphId,
    NamedKind,
    ObjectKind,
    SiteId,
    StreamId,
    StreamOrigin,
)
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.locked_monitor import LockedMonitor
from syncheck.instrument.namer import Namer
from syncheck.instrument.torch_internals import DisableTorchFunction, disable_dispatch_modes
from syncheck.sanitizer.monitor import Monitor
from syncheck.sanitizer.race_context import UNSEEN_WRITE
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.capture_modes import CaptureMode
from syncheck.sim.device_kind import explicit_index, gpu, simulated
from syncheck.sim.errors import cuda_error
from syncheck.sim.gpu_trace import GpuTrace
from syncheck.sim.guarded_monitor import GuardedMonitor
from syncheck.sim.host_regions import checksum
from syncheck.sim.memory import Memory
from syncheck.sim.null_monitor import NullMonitor
from syncheck.sim.sync_debug import SyncDebug
from syncheck.sim.virtual_gpus import CallSites, VirtualGpus
from syncheck.system.shared_flag import SharedFlag


class ProgramObject:
    """A stream or event created by the program.

    Attributes:
        kind: stream or event.
    """

    kind: ClassVar[NamedKind]

    @property
    def ident(self) -> int:
        """The object's id."""
        raise NotImplementedError


class StreamObject(Protocol):
    """Interface of the program's stream objects, implemented by `syncheck.sim.streams.SimulatedStream`."""

    origin: StreamOrigin

    @property
    def ident(self) -> StreamId:
        """The stream's id."""
        ...

    @property
    def device_index(self) -> int:
        """The index of the stream's device."""
        ...


class OperatorScheduler(Protocol):
    """Interface of the component that runs operators under a schedule: `syncheck.sim.deferral.Deferral`."""

    def replay(self, graph: GraphId, steps: Sequence[Callable[[], None]], used: Sequence[torch.Tensor]) -> None:
        """Replay a graph on the current stream. `used` holds tensors that the graph accesses but does not own."""

    def captured(self, owned: Iterable[torch.UntypedStorage]) -> None:
        """Note that a graph was captured that owns these storages."""

    def resizing(self, storage: torch.UntypedStorage, n_bytes: int) -> AbstractContextManager[None]:
        """Return a context manager in which the caller resizes a storage, whose memory is replaced."""

    def host_reads(self, tensors: Sequence[torch.Tensor]) -> None:
        """Prepare for the host reading the values of tensors."""


class _Active:
    """Holder of the process-wide runtime. There is one set of GPUs per process, as in reality."""

    runtime: "Runtime | None" = None


def active() -> "Runtime":
    """Return the runtime of this process.

    Raises:
        RuntimeError: no simulated GPU is active.
    """
    if _Active.runtime is None:
        raise RuntimeError("no simulated GPU is active in this process")
    return _Active.runtime


class Runtime:
    """Virtual GPUs behind torch's own interface.

    Attributes:
        gpus: devices, streams, and the current device and streams of each thread.
        gpu_trace: torch's callbacks for GPU calls.
        memory: placement of storages on devices.
        torch_devices: the `torch.device` of each virtual GPU.
        is_checking: whether the program is being checked.
        is_initialized: whether this process has used a GPU so far.
        makes_forks_bad: whether this process has called something else that keeps its later forks from using GPUs.
        is_in_bad_fork: whether this is a forked child that cannot use GPUs.
        unchecked_use: whether a forked child has used a GPU; set by the child.
        is_capturing, capture_mode: whether a graph capture is in progress; the mode of the latest one.
        n_captures: number of graph captures begun so far.
        before_call: callbacks that run before a call of the program takes effect. They report pending frees and update
            the stream of the running autograd node.
        on_rejected_call: callbacks that run when a capture makes a call fail.
        sync_debug: the action that the program has chosen for operators that make the host wait.
        deferral: runs operators under a schedule; None if each runs immediately.

    Args:
        n_devices: number of virtual GPUs.
        monitor: receives the operations of the program.
        sites: captures call sites.
        note: shows the user a message about the run.
        findings: receives the findings that the session completes.
        after_finding: called after new findings.
    """

    def __init__(
        self,
        n_devices: int,
        monitor: Monitor,
        sites: CallSites,
        note: Callable[[str], None],
        findings: NewFindings,
        after_finding: Callable[[], None],
    ) -> None:
        self.gpus = VirtualGpus(n_devices, monitor, sites)
        self.torch_devices = [gpu(index) for index in range(n_devices)]
        self.gpu_trace = GpuTrace(self.gpus)
        self.memory = Memory(self.gpus, self.gpu_trace)
        self.note = note
        self.pid = os.getpid()
        self.is_checking = True
        self.is_initialized = False
        self.makes_forks_bad = False
        self.is_in_bad_fork = False
        self.unchecked_use = SharedFlag()
        self.is_capturing, self.capture_mode = False, CaptureMode()
        self.n_captures = 0
        self.before_call: list[Callable[[], None]] = [self.memory.enter]
        self.on_rejected_call: list[Callable[[], None]] = []
        self.sync_debug = SyncDebug()
        self.deferral: OperatorScheduler | None = None
        self._findings = findings
        self._namer = Namer(lambda: self.gpus.monitor, sites, self, after_finding)
        self._queried: set[tuple[NamedKind, int]] = set()
        self.gpus.guarded.followers.append(self._forget_queries)

    def activate(self) -> None:
        """Make this the runtime of the process."""
        _Active.runtime = self

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Make this the runtime of the process for the duration of a block."""
        self.activate()
        try:
            yield
        finally:
            if os.getpid() == self.pid:
                _Active.runtime = None

    # -- calls from the program

    def enter(self) -> None:
        """Bring the state up to date before a call of the program takes effect."""
        for act in self.before_call:
            act()

    @property
    def has_new_findings(self) -> bool:
        """Return whether there are findings whose tensors have not been named yet."""
        return bool(self._findings.new)

    def name_findings(self) -> None:
        """Name the tensors of new findings, after a call that may complete one and while the frames are alive."""
        if self._findings.new:
            with self.gpus.lock, self.gpus.guarded.guard:
                self._namer.name_findings(self._findings.take())

    @contextmanager
    def unmonitored(self) -> Iterator[None]:
        """Run torch operators unobserved and unaffected by the program's default device."""
        with disable_dispatch_modes(), torch.no_grad(), DisableTorchFunction():
            yield

    # -- processes

    def become_child(self) -> None:
        """Stop checking in a forked child, and stop simulating if it cannot use GPUs.

        Queries about devices and streams are still answered.

        Source:
            torch/csrc/utils/device_lazy_init.cpp, `register_fork_handler_for_device_init`: what initializes CUDA makes
            later forks bad.
        """
        if self.is_initialized or self.makes_forks_bad:
            self.is_checking = self.is_initialized = False
            self.is_in_bad_fork = True
        self.gpus.become_child(GuardedMonitor(NullMonitor()))
        self.memory.forget_frees()

    def check_process(self) -> None:
        """Initialize CUDA in this process, or raise the error for a forked child of a process that had.

        Source:
            torch/cuda/__init__.py, `_lazy_init`.
        """
        if self.is_in_bad_fork:
            title = simulated().title
            raise RuntimeError(
                f"Cannot re-initialize {title} in forked subprocess. To use {title} with multiprocessing, "
                "you must use the 'spawn' start method"
            )
        if not self.is_initialized:
            self.is_initialized = True
            if os.getpid() != self.pid:
                self.unchecked_use.set()

    # -- devices

    def index_of(self, device: Any) -> int:
        """Return the index of a device given in any form that torch accepts, or the current device without an index.

        Raises:
            RuntimeError: the ordinal does not exist; the message is torch's.
        """
        self.check_process()
        index = explicit_index(device)
        if index is None or index < 0:
            state = self.gpus.thread
            state.implicit_device = True
            return state.device
        if index >= len(self.gpus.devices):
            raise cuda_error("invalid device ordinal")
        return index

    def resolve(self, stream: StreamObject | None) -> tuple[int, StreamId]:
        """Return (device, stream id) of a stream, or of the current stream for None."""
        if stream is None:
            self.check_process()
            device = self.gpus.thread.device
            return device, self.gpus.current_stream(device)
        return stream.device_index, stream.ident

    # -- objects created by the program

    def name_new(self, kind: NamedKind, ident: int, site: SiteId) -> None:
        """Name a new object after the variable that the program binds it to."""
        with self.gpus.lock, self.gpus.guarded.guard:
            self._namer.name_new(kind, ident, site)

    def allocation_of(self, tensor: torch.Tensor) -> AllocationId:
        """See `Identities`."""
        return self.memory.allocation_of(tensor)

    def stream_of(self, value: Any) -> StreamId:
        """See `Identities`."""
        is_stream = issubclass(type(value), ProgramObject) and value.kind is NamedKind.STREAM
        return StreamId(value.ident) if is_stream else HOST

    def event_of(self, value: Any) -> EventId:
        """See `Identities`."""
        is_event = issubclass(type(value), ProgramObject) and value.kind is NamedKind.EVENT
        return EventId(value.ident) if is_event else NO_EVENT

    def on_finalize(self, thing: Any, kind: ObjectKind, ident: EventId) -> None:
        """Report the destruction of a stream or event object when it happens."""
        weakref.finalize(thing, self._object_destroyed, kind, ident).atexit = False

    def _object_destroyed(self, kind: ObjectKind, ident: EventId) -> None:
        if _Active.runtime is not self:
            return
        monitor = self.gpus.monitor
        if isinstance(monitor, LockedMonitor):  # a forked child reports nothing
            monitor.later("object_destroyed", kind, ident)
            if kind is ObjectKind.TIMING_EVENT:
                self.gpu_trace.event_destroyed(ident)
                monitor.later("drop_event", ident)

    # -- host waits

    def answer_query(self, kind: NamedKind, ident: int, event: Any = None) -> bool:
        """Answer a query: pending work is reported as incomplete by the first query and as complete by the next one.

        This way both branches of a program that queries are executed, and a polling loop ends.
        """
        self.enter()
        gpus = self.gpus
        self.reject_during_capture(f"{kind.capitalize()}.query()")
        if gpus.monitor.is_pending(kind, ident):
            key = (kind, ident)
            if key not in self._queried and not (event is not None and event.queried):
                if event is not None:
                    event.queried = True
                else:
                    self._queried.add(key)
                return False
            self._queried.discard(key)
        site = gpus.site()
        with self.gpu_trace.silent():
            if kind is NamedKind.EVENT:
                gpus.monitor.sync_event(EventId(ident), site)
            else:
                gpus.monitor.sync_stream(StreamId(ident), site, explicit=False)
        return True

    def _forget_queries(self, name: str, args: tuple[Any, ...]) -> None:
        """After a host wait, forget queries about completed work: new work is again first reported as pending."""
        del args
        if self._queried and name.startswith("sync_"):
            pending = self.gpus.monitor.is_pending
            self._queried = {(kind, ident) for kind, ident in self._queried if pending(kind, ident)}

    def wait_in_operator(self, stream: StreamId) -> None:
        """Make the host wait for a stream inside an operator.

        Raises:
            RuntimeError: the program requested errors with `torch.cuda.set_sync_debug_mode`.
        """
        self.sync_debug.check()
        self.gpus.monitor.sync_stream(stream, self.gpus.site(), explicit=False)

    def synchronize(self, device: Any = None) -> None:
        """Simulate `torch.cuda.synchronize`."""
        self.enter()
        index = self.index_of(device)
        self.verify_all_unmodified()
        self.reject_during_capture(f"torch.{simulated().name}.synchronize()", index)
        self.gpus.monitor.sync_device(index, self.gpus.site())

    def reject_in_capture(self, call: str) -> None:
        """Report a host synchronization during a capture and raise CUDA's error."""
        self.gpus.monitor.sync_in_capture(call, self.gpus.site())
        for act in self.on_rejected_call:
            act()
        raise cuda_error("operation not permitted when stream is capturing")

    def reject_uncaptured(self) -> None:
        """Invalidate a capture in which a stream would wait for work outside the capture, and raise CUDA's error.

        Source:
            CUDA Runtime API, cudaErrorStreamCaptureIsolation (905); CUDA C++ Programming Guide, "Cross-stream
            Dependencies and Events" of stream capture.
        """
        for act in self.on_rejected_call:
            act()
        raise cuda_error("dependency created on uncaptured work in another stream")

    def reject_during_capture(self, call: str, device: int | None = None) -> None:
        """Reject a call that is not allowed while a capture is in progress, whatever its stream; see `CaptureMode`.

        Source:
            CUDA Runtime API, "Stream Management": a device with captured streams must not be synchronized in any mode.
        """
        if self.is_capturing and self.capture_mode.prohibits(device):
            self.reject_in_capture(call)

    # -- pinned buffers whose address was exported

    def verify_unmodified(self, tensor: torch.Tensor, *, is_last: bool = True) -> None:
        """Report a change to an exported pinned buffer made since a copy from it was submitted that may be running."""
        tag = self.memory.of(tensor)
        if tag is None or tag.in_flight is None:
            return
        changed = checksum(tensor.untyped_storage()) != tag.in_flight
        if changed or is_last:
            tag.in_flight = None
        if changed:
            access = [(tag.ident, self.memory.view(tensor), True)]
            self.gpus.monitor.host_access(UNSEEN_WRITE, access, self.gpus.site())
            self.name_findings()

    def verify_all_unmodified(self, *, is_last: bool = True) -> None:
        """Check all exported pinned buffers with copies in flight, before the host waits for all or some of them."""
        for tag, storage in self.memory.exported():
            if tag.device == HOST_DEVICE and tag.in_flight is not None:
                with self.unmonitored():
                    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
                self.verify_unmodified(whole, is_last=is_last)
