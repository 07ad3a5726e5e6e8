"""What every part of the simulator needs: the virtual GPUs, their memory, names, and what a capture refuses."""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import torch

from syncheck.hb.clock import HOST
from syncheck.hb.ids import NO_EVENT, AllocationId, EventId, GraphId, LookedUp, NamedKind, ObjectKind, SiteId, StreamId
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.locked_monitor import LockedMonitor
from syncheck.instrument.namer import Namer
from syncheck.instrument.torch_internals import DisableTorchFunction, disable_dispatch_modes
from syncheck.sanitizer.monitor import Monitor
from syncheck.sanitizer.race_context import UNSEEN_WRITE
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.device_kind import gpu, is_gpu, simulated
from syncheck.sim.errors import cuda_error
from syncheck.sim.gpu_trace import GpuTrace
from syncheck.sim.guarded_monitor import GuardedMonitor
from syncheck.sim.memory import Memory
from syncheck.sim.null_monitor import NullMonitor
from syncheck.sim.sync_debug import SyncDebug
from syncheck.sim.virtual_gpus import CallSites, VirtualGpus


class ProgramObject:
    """A stream or an event of the program.

    Attributes:
        kind: which of the two.
    """

    kind: ClassVar[NamedKind]

    @property
    def ident(self) -> int:
        """Its id."""
        raise NotImplementedError


class StreamObject(Protocol):
    """A stream object of the program: `syncheck.sim.streams.SimulatedStream`."""

    looked_up: LookedUp

    @property
    def ident(self) -> StreamId:
        """Its id."""
        ...

    @property
    def device_index(self) -> int:
        """The index of its device."""
        ...


class Postponing(Protocol):
    """What runs operators by a schedule: `syncheck.sim.deferral.Deferral`."""

    def replay(self, graph: GraphId, steps: Sequence[Callable[[], None]], used: Sequence[torch.Tensor]) -> None:
        """Replay a graph on the current stream; `used`: what it needs and does not own."""

    def captured(self, owned: Iterable[torch.UntypedStorage]) -> None:
        """A graph was captured that owns this memory."""

    def before_resize(self, storage: torch.UntypedStorage) -> None:
        """A storage is about to get other memory."""

    def host_gets(self, tensors: Sequence[torch.Tensor]) -> None:
        """The host gets values."""


class _Active:
    """The runtime of this process: there is one set of GPUs, as in reality."""

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
    """Virtual GPUs under torch's own interface.

    Attributes:
        gpus: devices, streams, and what is current in each thread.
        gpu_trace: torch's callbacks for GPU calls.
        memory: which storages are on which device.
        torch_devices: `torch.device` of each.
        is_checking: the program is watched.
        is_forked: this is a forked child, which is left alone.
        is_capturing: a graph capture is in progress.
        n_captures: graph captures that were begun.
        before_call: called before a call of the program acts: frees and the stream of an autograd node are up to date
            then.
        on_refused_capture: called when a call was refused because of a capture.
        sync_debug: what the program wants to happen where an operator makes the host wait.
        deferral: runs operators by a schedule; None where each runs at once.

    Args:
        n_devices: how many.
        monitor: receives what the program does.
        sites: captures call sites.
        note: shows the user something about the run.
        findings: gets the findings that the session completes.
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
        self.is_forked = False
        self.is_capturing = False
        self.n_captures = 0
        self.before_call: list[Callable[[], None]] = [self.memory.flush]
        self.on_refused_capture: list[Callable[[], None]] = []
        self.sync_debug = SyncDebug()
        self.deferral: Postponing | None = None
        self._findings = findings
        self._namer = Namer(lambda: self.gpus.monitor, sites, self, after_finding)
        self._asked: set[tuple[NamedKind, int]] = set()
        self.gpus.guarded.followers.append(self._forget_questions)

    def activate(self) -> None:
        """Make this the runtime of the process."""
        _Active.runtime = self

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Make this the runtime of the process for the time of a block."""
        self.activate()
        try:
            yield
        finally:
            if os.getpid() == self.pid:
                _Active.runtime = None

    # -- calls of the program

    def enter(self) -> None:
        """Bring things up to date before a call of the program acts."""
        for act in self.before_call:
            act()

    @property
    def has_new_findings(self) -> bool:
        """Return whether there are findings whose tensors have no names yet."""
        return bool(self._findings.new)

    def name_findings(self) -> None:
        """After a call that may have completed findings: name their tensors while the frames are alive."""
        if self._findings.new:
            with self.gpus.lock, self.gpus.guarded.guard:
                self._namer.name_findings(self._findings.take())

    @contextmanager
    def unmonitored(self) -> Iterator[None]:
        """Run torch operators without being seen, whatever device the program has made the default one."""
        with disable_dispatch_modes(), torch.no_grad(), DisableTorchFunction():
            yield

    # -- processes

    def become_child(self) -> None:
        """This process is a forked child: stop watching, answer questions about devices and streams as before."""
        self.is_checking = False
        self.is_forked = True
        self.gpus.become_child(GuardedMonitor(NullMonitor()))
        self.memory.forget_frees()

    def check_process(self) -> None:
        """Raise what CUDA's initialization raises in a forked child.

        Source:
            torch/cuda/__init__.py, `_lazy_init`.
        """
        if self.is_forked:
            title = simulated().title
            raise RuntimeError(
                f"Cannot re-initialize {title} in forked subprocess. To use {title} with multiprocessing, "
                "you must use the 'spawn' start method"
            )

    # -- devices

    def index_of(self, device: Any) -> int:
        """Return the index of a device given as torch takes it; the current one where the index is left out.

        Raises:
            RuntimeError: torch's error for an ordinal that does not exist.
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
        """Return (device, stream id) of a stream, the current one for None."""
        if stream is None:
            device = self.gpus.thread.device
            return device, self.gpus.current_stream(device)
        return stream.device_index, stream.ident

    # -- objects of the program

    def name_new(self, kind: NamedKind, ident: int, site: SiteId) -> None:
        """Give a new object the name that the program binds it to."""
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
        """Report it when a stream or event object is gone."""
        weakref.finalize(thing, self._gone, kind, ident).atexit = False

    def _gone(self, kind: ObjectKind, ident: EventId) -> None:
        if _Active.runtime is not self:
            return
        monitor = self.gpus.monitor
        if isinstance(monitor, LockedMonitor):  # a forked child reports nothing
            monitor.later("object_destroyed", kind, ident)
            if kind is ObjectKind.TIMING_EVENT:
                self.gpu_trace.event_gone(ident)
                monitor.later("drop_event", ident)

    # -- waiting on the host

    def answer_query(self, kind: NamedKind, ident: int, event: Any = None) -> bool:
        """Answer a query: pending work is not complete at the first question, and complete at the next one.

        So both branches of a program that asks are run, and a loop that polls ends.
        """
        self.enter()
        gpus = self.gpus
        self.refuse_any_capture(f"{kind.capitalize()}.query()")
        if gpus.monitor.is_pending(kind, ident):
            key = (kind, ident)
            if key not in self._asked and not (event is not None and event.queried):
                if event is not None:
                    event.queried = True
                else:
                    self._asked.add(key)
                return False
            self._asked.discard(key)
        site = gpus.site()
        with self.gpu_trace.silent():
            if kind is NamedKind.EVENT:
                gpus.monitor.sync_event(EventId(ident), site)
            else:
                gpus.monitor.sync_stream(StreamId(ident), site, explicit=False)
        return True

    def _forget_questions(self, name: str, args: tuple[Any, ...]) -> None:
        """The host has waited: what it knows to be complete now is asked about anew, once there is new work."""
        del args
        if self._asked and name.startswith("sync_"):
            pending = self.gpus.monitor.is_pending
            self._asked = {(kind, ident) for kind, ident in self._asked if pending(kind, ident)}

    def wait_in_operator(self, stream: StreamId) -> None:
        """The host waits for a stream inside an operator.

        Raises:
            RuntimeError: the program asked for an error, by `torch.cuda.set_sync_debug_mode`.
        """
        self.sync_debug.check()
        self.gpus.monitor.sync_stream(stream, self.gpus.site(), explicit=False)

    def synchronize(self, device: Any = None) -> None:
        """`torch.cuda.synchronize`."""
        self.enter()
        index = self.index_of(device)
        self.verify_all_unmodified()
        self.refuse_any_capture(f"torch.{simulated().name}.synchronize()")
        self.gpus.monitor.sync_device(index, self.gpus.site())

    def refuse_in_capture(self, call: str) -> None:
        """Report a host synchronization during a capture and raise what CUDA raises."""
        self.gpus.monitor.sync_in_capture(call, self.gpus.site())
        for act in self.on_refused_capture:
            act()
        raise cuda_error("operation not permitted when stream is capturing")

    def refuse_uncaptured(self) -> None:
        """A captured stream was to wait for work outside of the capture: invalidate that, and raise what CUDA raises.

        Source:
            CUDA Runtime API, cudaErrorStreamCaptureIsolation (905); CUDA C++ Programming Guide, "Cross-stream
            Dependencies and Events" of stream capture.
        """
        for act in self.on_refused_capture:
            act()
        raise cuda_error("dependency created on uncaptured work in another stream")

    def refuse_any_capture(self, call: str) -> None:
        """Refuse a call that no capture in progress allows, whatever its stream.

        Source:
            CUDA Runtime API, cudaStreamCaptureModeGlobal: potentially unsafe calls are prohibited.
        """
        if self.is_capturing:
            self.refuse_in_capture(call)

    # -- pinned buffers whose address was handed out

    def verify_unmodified(self, tensor: torch.Tensor) -> None:
        """Report a change of an exported pinned buffer since an asynchronous copy from it was submitted."""
        tag = self.memory.of(tensor)
        if tag is None or tag.in_flight is None:
            return
        changed = self.memory.checksum(tensor.untyped_storage()) != tag.in_flight
        tag.in_flight = None
        if changed:
            access = [(tag.ident, self.memory.view(tensor), True)]
            self.gpus.monitor.host_access(UNSEEN_WRITE, access, self.gpus.site())
            self.name_findings()

    def verify_all_unmodified(self) -> None:
        """Look at all exported pinned buffers with copies in flight, before the host waits."""
        for tag, storage in self.memory.exported():
            if tag.device == HOST_DEVICE and tag.in_flight is not None:
                with self.unmonitored():
                    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
                self.verify_unmodified(whole)


def explicit_index(device: Any) -> int | None:
    """Return the index in a device description; None where it names no index."""
    if device is None:
        return None
    if isinstance(device, int):
        return int(device)
    if isinstance(device, torch.device | str):
        found = torch.device(device)
        if not is_gpu(found):
            raise ValueError(f"Expected a {simulated().name} device, but got: {found}")
        return found.index
    return getattr(device, "index", None) if hasattr(device, "index") else getattr(device, "idx", None)
